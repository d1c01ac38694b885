//! Where messages, cursors and recalls are written: many at a time, in one transaction, in one order.
//!
//! A number is taken inside the commit. If the commit fails, nobody has seen it and the next message gets it.

use super::desk::Desk;
use super::inboxes::Inboxes;
use super::lanes::Lanes;
use super::lasts::Lasts;
use super::ring::Rings;
use super::store::{Store, UNFILED_BYTES};
use super::stored_message::StoredMessage;
use super::writer::Writer;
use super::{Error, events};
use crate::kernel::{
    Aid, Batch, Bus, DeviceId, Engine, Presence, PresentSession, Tally, Trace, World, catch_panic,
};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// What may wait for a commit.
const QUEUE_BYTES: usize = 64 << 20;
/// How many commits may be ahead of the bells for them.
const BELLS: usize = 64;

/// A message that has no numbers yet.
pub(super) struct Draft {
    /// `places` have no `seq` yet.
    pub message: StoredMessage,
    /// The device behind each place, for the bell.
    pub devices: Vec<DeviceId>,
    /// The one connection that gets a queue message, and the payload that only memory keeps.
    pub queue: Option<Queued>,
    pub trace: Option<Trace>,
}

pub(super) struct Queued {
    pub seat: Option<PresentSession>,
    pub payload: Box<RawValue>,
}

/// A consumer says how far it has read.
pub(super) struct Advance {
    pub inbox: i64,
    pub slot: String,
    /// Empty for all senders together.
    pub sender: String,
    pub seq: i64,
}

/// A sender takes messages back.
pub(super) struct Recall {
    pub from: Aid,
    pub device: DeviceId,
    pub message_ids: Vec<String>,
    pub now: i64,
    /// Messages older than this stay.
    pub since: i64,
    /// The ids for what tells the recipients of it, one for each of them.
    pub notice_ids: Vec<String>,
    /// The devices behind the inboxes that may have to be told.
    pub devices: HashMap<i64, DeviceId>,
}

/// What an agent's devices were when a message was addressed: an inbox, and how often they had changed. Only PostgreSQL
/// counts that, where other processes let devices in, too.
#[derive(Default)]
pub(super) struct Changes(pub Vec<(i64, i64)>);

pub(super) enum Write {
    Send(Box<Draft>, Changes),
    Ack(Advance),
    Recall(Box<Recall>),
}

/// What became of a write.
pub(super) enum Done {
    Sent(Arc<StoredMessage>),
    /// It was sent before; this is the one.
    Again(Arc<StoredMessage>),
    /// The devices it was addressed to are not those its recipient has.
    Stale,
    Acked {
        before: i64,
        now: i64,
    },
    Recalled(Vec<(String, Outcome)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Recalled,
    NotFound,
    AlreadyRecalled,
    Expired,
}

/// What a commit has to be told of.
pub(super) struct Bell {
    pub message: Arc<StoredMessage>,
    pub devices: Vec<DeviceId>,
    pub seat: Option<PresentSession>,
    pub trace: Option<Trace>,
}

pub(super) struct Ledger {
    books: Books,
    store: Arc<Store>,
    tally: Arc<Tally>,
}

enum Books {
    One(Batch<Write, Done>),
    Many(Lanes),
}

impl Write {
    /// The inboxes it may change.
    pub fn inboxes(&self) -> Vec<i64> {
        match self {
            Write::Send(draft, changes) => {
                let placed = draft.message.places.iter().map(|place| place.inbox);
                placed.chain(changes.0.iter().map(|(inbox, _)| *inbox)).collect()
            }
            Write::Ack(advance) => vec![advance.inbox],
            Write::Recall(recall) => recall.devices.keys().copied().collect(),
        }
    }
}

impl Ledger {
    pub async fn open(
        world: &World,
        store: Arc<Store>,
        rings: Arc<Rings<Arc<StoredMessage>>>,
        inboxes: Arc<Inboxes>,
    ) -> sqlx::Result<Ledger> {
        let (ring, bells) = mpsc::channel(BELLS);
        let tally = world.stores.tally("message");
        world.tracker.spawn(announce(bells, inboxes, world.bus.clone(), world.presence.clone()));
        if store.db().engine() == Engine::Postgres {
            let desk = Desk { store: store.clone(), bells: ring, lasts: Lasts::default() };
            let lanes = Lanes::start(&world.tracker, tally.clone(), QUEUE_BYTES, desk);
            return Ok(Ledger { books: Books::Many(lanes), store, tally });
        }
        let filed = Arc::downgrade(&store);
        tally.set_unindexed(move || filed.upgrade().map_or(0, |store| store.unfiled().1));
        let last: i64 = sqlx::query_scalar("SELECT COALESCE(MAX(id), 0) FROM letter")
            .fetch_one(store.db().read())
            .await?;
        let writer = Writer { store: store.clone(), rings, ring, last, unsure: false };
        let commit = |mut writer: Writer, writes| async move {
            let done = writer.commit(writes).await;
            (writer, done)
        };
        let batch = Batch::start_with(&world.tracker, tally.clone(), QUEUE_BYTES, writer, commit);
        Ok(Ledger { books: Books::One(batch), store, tally })
    }

    pub async fn write(&self, write: Write) -> Result<Done, Error> {
        let (_, bytes) = self.store.unfiled();
        if bytes > UNFILED_BYTES {
            self.tally.refuse();
            return Err(Error::Behind(bytes));
        }
        let weight = match &write {
            Write::Send(draft, _) => {
                draft.message.weight() + draft.queue.as_ref().map_or(0, |q| q.payload.get().len())
            }
            Write::Ack(_) => 128,
            Write::Recall(recall) => 128 + recall.message_ids.iter().map(String::len).sum::<usize>(),
        };
        Ok(match &self.books {
            Books::One(batch) => batch.submit(write, weight).await?,
            Books::Many(lanes) => lanes.submit(write, weight).await?,
        })
    }
}

/// Rings the bells of committed messages, in the order of the commits. It ends with the ledger and not before, whatever
/// happens to a single bell.
async fn announce(mut bells: mpsc::Receiver<Vec<Bell>>, inboxes: Arc<Inboxes>, bus: Bus, presence: Presence) {
    while let Some(mut bells) = bells.recv().await {
        // The senders are being answered at this moment; they come first.
        tokio::task::yield_now().await;
        for bell in &mut bells {
            if bell.devices.iter().any(DeviceId::is_empty) {
                name_devices(bell, &inboxes).await;
            }
            // Logged there, and nobody waits for more: its recipient finds the message by pull.
            let _ = catch_panic("the event of a message", || {
                events::ring(&bus, &presence, &*bell);
                Ok(())
            });
        }
    }
}

/// An inbox that waited for its first device may have got one while the message was on its way.
async fn name_devices(bell: &mut Bell, inboxes: &Inboxes) {
    let Ok(known) = inboxes.of(&bell.message.to).await else { return };
    for (place, device) in bell.message.places.iter().zip(&mut bell.devices) {
        if let Some(inbox) = known.iter().find(|inbox| inbox.id == place.inbox) {
            *device = inbox.device.clone();
        }
    }
}
