//! `message.*`: messages between agents, never lost and never doubled.
//!
//! A message is written once, to the log, with the number it has in each inbox; whoever sent it is answered after that
//! commit, and whoever it is for is told after that. Three generations of clients read the same inboxes.

mod ack;
mod address;
mod append;
mod consumer;
mod cursors;
mod desk;
mod e2ee;
mod echo;
mod envelope;
mod error;
mod events;
mod federation;
mod filing;
mod filter;
mod finding;
mod fleeting;
mod history;
mod inboxes;
mod join;
mod keep;
mod keys;
mod lanes;
mod lasts;
mod ledger;
mod mail;
mod members;
mod numbered;
mod outbox;
mod page;
mod peers;
mod post;
mod pull;
mod purging;
mod query_online;
mod read;
mod read_state;
mod reading;
mod recall;
mod recalling;
mod ring;
mod rows;
mod send;
mod sending;
mod shared;
mod sheet;
mod store;
mod stored_message;
mod tail;
#[cfg(test)]
mod tests;
mod thought;
mod turns;
mod v2;
mod volatile;
mod wake;
mod writer;

use crate::kernel::{Aid, Bus, Clock, Ids, Mesh, Methods, Module, Presence, Rpc, World};
use error::Error;
use federation::{PeerEvents, PeerOutbox, RecentPeers};
use fleeting::FleetingSent;
use inboxes::Inboxes;
use keys::Keys;
use ledger::Ledger;
use parking_lot::Mutex;
use reading::Reading;
use ring::Rings;
use shared::Shared;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use stored_message::StoredMessage;
use thought::Thoughts;
use tokio_util::task::TaskTracker;
use turns::Turns;
use volatile::Volatile;

pub(crate) async fn open(world: &World) -> anyhow::Result<Module> {
    let message = Message::open(world).await?;
    let (keeper, stop) = (message.clone(), world.stop.clone());
    Ok(Module::new("message", rpc(message)).with_work(async move {
        stop.run_until_cancelled(async { tokio::join!(keeper.keep(), keeper.deliver()) }).await;
        keeper.stop_delivery().await;
    }))
}

fn rpc(message: Arc<Message>) -> Methods {
    Rpc::new(message)
        .method("message.send", Message::send)
        .method("message.pull", Message::pull)
        .method("message.ack", Message::ack)
        .method("message.recall", Message::recall)
        .method("message.query_online", Message::query_online)
        .method("message.peers", Message::peers)
        .method("message.history", Message::history)
        .method("message.read", Message::read)
        .method("message.read_state", Message::read_state)
        .method("message.e2ee.put_prekey", Message::put_prekey)
        .method("message.e2ee.get_prekey", Message::get_prekey)
        .method("message.e2ee.record_replay_guard", Message::record_replay_guard)
        .method("message.e2ee.check_replay_guard", Message::check_replay_guard)
        .method("message.v2.put_peer_pk", Message::put_peer_pk)
        .method("message.v2.bootstrap", Message::bootstrap)
        .method("message.v2.pull", Message::v2_pull)
        .method("message.v2.ack", Message::v2_ack)
        .method("message.thought.put", Message::put_thought)
        .method("message.thought.get", Message::get_thought)
        .method("message.join", Message::join)
        .method("message.wake", Message::wake)
        .method("message.outbox", Message::outbox)
        .into()
}

struct Message {
    issuer: String,
    inboxes: Arc<Inboxes>,
    turns: Turns<Aid>,
    keys: Keys,
    reading: Reading,
    thoughts: Thoughts,
    volatile: Volatile<Arc<StoredMessage>>,
    fleeting_sent: FleetingSent,
    rings: Arc<Rings<Arc<StoredMessage>>>,
    /// On PostgreSQL, in place of the four above, except for who gets the next queue message.
    shared: Option<Shared>,
    ledger: Ledger,
    store: Arc<Store>,
    peer_events: PeerEvents,
    recent_peers: RecentPeers,
    outbox: PeerOutbox,
    /// How long a message waits for a domain that cannot be reached, if it does.
    peer_retention: Option<Duration>,
    mesh: Arc<Mesh>,
    bus: Bus,
    presence: Presence,
    clock: Clock,
    ids: Ids,
    tracker: TaskTracker,
    /// The connections that will be looked at again in a moment.
    looking: Mutex<HashSet<u64>>,
}

impl Message {
    async fn open(world: &World) -> anyhow::Result<Arc<Message>> {
        let store = Arc::new(Store::open(world).await?);
        let rings = Arc::new(Rings::default());
        let inboxes = Arc::new(Inboxes::new(store.db().clone()));
        let ledger = Ledger::open(world, store.clone(), rings.clone(), inboxes.clone()).await?;
        Ok(Arc::new(Message {
            issuer: world.issuer.clone(),
            inboxes,
            turns: Turns::default(),
            keys: Keys::new(store.db().clone()),
            reading: Reading::new(store.db().clone()),
            thoughts: Thoughts::default(),
            volatile: Volatile::new(&world.ids),
            fleeting_sent: FleetingSent::default(),
            rings,
            shared: Shared::open(store.db()).await?,
            ledger,
            recent_peers: RecentPeers::open(world, store.db()),
            outbox: PeerOutbox::open(world, store.db()).await?,
            store,
            peer_retention: world.peer_retention,
            peer_events: PeerEvents::start(&world.tracker, world.mesh.clone(), world.ids.clone()),
            mesh: world.mesh.clone(),
            bus: world.bus.clone(),
            presence: world.presence.clone(),
            clock: world.clock.clone(),
            ids: world.ids.clone(),
            tracker: world.tracker.clone(),
            looking: Mutex::default(),
        }))
    }
}
