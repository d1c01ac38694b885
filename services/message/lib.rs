//! `message.*`: messages between agents, never lost and never doubled.
//!
//! A message is written once, to the log, with the seq it has in each inbox; its sender is answered after that commit, and its
//! recipients are told after that. Three generations of clients read the same inboxes.

mod ack;
mod agent_removal;
mod delivery;
mod e2ee;
mod envelope;
mod error;
mod federation;
mod history;
mod maintenance;
mod outbox;
mod pull;
mod query_online;
mod reading;
mod recall;
mod send;
mod sending;
mod session_closed;
mod session_opened;
mod session_resync;
mod settings;
mod store;
#[cfg(test)]
mod tests;
mod thought;
mod v2;
mod webhook;

use delivery::publisher;
use e2ee::keys::Prekeys;
use error::Error;
use federation::{PeerEvents, PeerOutbox, RecentPeers};
use kernel::{
    AgentRemover, Aid, Bus, Clock, Ids, Mesh, Methods, Presence, Rpc, Service, ServiceRow, Task, World,
};
use parking_lot::Mutex;
use reading::read_states::ReadStates;
use sending::lookup_queue::LookupQueues;
use sending::volatile::VolatileSent;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use store::ephemeral::queue_messages::QueueMessages;
use store::ephemeral::shared_rows::SharedRows;
use store::ephemeral::volatile::VolatileMessages;
use store::inboxes::Inboxes;
use store::ledger::Ledger;
use store::quotas::Quotas;
use store::stored_message::StoredMessage;
use thought::Thoughts;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use settings::Settings;
use settings::bytes;

/// The service as `aund` hands it to the gateway.
pub fn row() -> ServiceRow {
    ServiceRow::new("message", open)
}

pub async fn open(world: &World, settings: &Settings) -> anyhow::Result<Service> {
    let message = MessageService::open(world, settings).await?;
    let (maintaining, maintained_until) = (message.clone(), world.stop.clone());
    let maintenance = Task::new("maintenance", move || {
        let (message, stop) = (maintaining.clone(), maintained_until.clone());
        async move {
            stop.run_until_cancelled(message.maintain()).await;
        }
    });
    let delivery = message.outbox.rows.task("delivery", world, &message);
    let removal = AgentRemover::new(world, "message", message.store.db(), message.clone()).removal();
    Ok(Service::new(&["message"], rpc(message), removal).with_task(maintenance).with_task(delivery))
}

fn rpc(message: Arc<MessageService>) -> Methods {
    Rpc::new(message)
        .method(MessageService::send)
        .method(MessageService::pull)
        .method(MessageService::ack)
        .method(MessageService::recall)
        .method(MessageService::query_online)
        .method(MessageService::peers)
        .method(MessageService::history)
        .method(MessageService::read)
        .method(MessageService::read_state)
        .method(MessageService::put_prekey)
        .method(MessageService::get_prekey)
        .method(MessageService::record_replay_guard)
        .method(MessageService::check_replay_guard)
        .method(MessageService::put_peer_pk)
        .method(MessageService::bootstrap)
        .method(MessageService::v2_pull)
        .method(MessageService::v2_ack)
        .method(MessageService::put_thought)
        .method(MessageService::get_thought)
        .method(MessageService::session_opened)
        .method(MessageService::session_resync)
        .method(MessageService::session_closed)
        .method(MessageService::put_webhook_device)
        .method(MessageService::remove_webhook_device)
        .method(MessageService::next_for_webhook)
        .method(MessageService::ack_of_webhook)
        .method(MessageService::waiting_for_webhooks)
        .method(MessageService::outbox)
        .method(MessageService::account)
        .into()
}

struct MessageService {
    issuer: String,
    inboxes: Arc<Inboxes>,
    lookups: LookupQueues<Aid>,
    keys: Prekeys,
    read_states: ReadStates,
    thoughts: Thoughts,
    volatile: VolatileMessages<Arc<StoredMessage>>,
    volatile_sent: VolatileSent,
    queue_messages: Arc<QueueMessages<Arc<StoredMessage>>>,
    /// On PostgreSQL, in place of the four above. Only which connection gets the next queue message is decided from memory.
    shared: Option<SharedRows>,
    ledger: Ledger,
    quotas: Quotas,
    store: Arc<Store>,
    peer_events: PeerEvents,
    recent_peers: RecentPeers,
    outbox: PeerOutbox,
    /// How long messages are stored, and how long after it was sent one can be recalled.
    retention_ms: i64,
    recall_ms: i64,
    /// How long a device is known that is not seen.
    device_ms: i64,
    /// How long a message waits for a domain that cannot be reached, if it does.
    peer_retention: Option<Duration>,
    mesh: Arc<Mesh>,
    bus: Bus,
    presence: Presence,
    clock: Clock,
    ids: Ids,
    tracker: TaskTracker,
    stop: CancellationToken,
    /// The connections that will be notified again, and when.
    notifying: Mutex<HashMap<u64, Instant>>,
    /// The connections whose inbox is looked at again after a reminder, and the seq it named.
    reminded: Mutex<HashMap<u64, i64>>,
}

impl MessageService {
    async fn open(world: &World, settings: &Settings) -> anyhow::Result<Arc<MessageService>> {
        let store = Arc::new(Store::open(world).await?);
        let queue_messages = Arc::new(QueueMessages::new(settings.queue_limits(), &world.issuer));
        let inboxes = Inboxes::open(world, store.clone(), settings.devices_per_agent());
        let committed = publisher::start(world, inboxes.clone());
        let ledger = Ledger::open(world, store.clone(), queue_messages.clone(), committed).await?;
        let limits = settings.quota_limits(world.accounts.settings());
        let quotas = Quotas::open(store.db(), limits, world, settings.retention_ms()).await?;
        Ok(Arc::new(MessageService {
            issuer: world.issuer.clone(),
            inboxes,
            lookups: LookupQueues::default(),
            keys: Prekeys::new(store.db().clone()),
            read_states: ReadStates::new(store.db().clone()),
            thoughts: Thoughts::new(&world.issuer, bytes(settings.thought_total_bytes)),
            volatile: VolatileMessages::new(&world.ids, bytes(settings.ttl_total_bytes)),
            volatile_sent: VolatileSent::new(bytes(settings.ttl_total_bytes)),
            queue_messages,
            shared: SharedRows::open(store.db()).await?,
            ledger,
            quotas,
            recent_peers: RecentPeers::open(world, store.db(), settings.recall_ms()),
            outbox: PeerOutbox::open(world, store.db()).await?,
            store,
            retention_ms: settings.retention_ms(),
            recall_ms: settings.recall_ms(),
            device_ms: settings.device_ms(),
            peer_retention: settings.peer_retention(),
            peer_events: PeerEvents::start(&world.tracker, world.mesh.clone(), world.ids.clone()),
            mesh: world.mesh.clone(),
            bus: world.bus.clone(),
            presence: world.presence.clone(),
            clock: world.clock.clone(),
            ids: world.ids.clone(),
            tracker: world.tracker.clone(),
            stop: world.stop.clone(),
            notifying: Mutex::default(),
            reminded: Mutex::default(),
        }))
    }
}
