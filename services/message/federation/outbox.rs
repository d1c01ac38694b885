//! Messages that wait for domains that cannot be reached, and when a message is sent without waiting.

use crate::Error;
use crate::sending::lookup_queue::{LookupGuard, LookupQueues};
use crate::store::stored_message::MessageKey;
use kernel::{
    Aid, BackoffSchedule, Batch, Db, DeviceId, ExpiringCache, NewOutboxRow, Outbox, OutboxSettings,
    OutboxWithdrawal, Retry, RowKind, SlotId, World,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What may wait to be stored.
const QUEUE_BYTES: usize = 32 << 20;
/// What may wait for one domain; beyond that a message is sent now or its sender gets the error.
const MOST_BYTES: i64 = 1 << 30;
/// How long this process may assume that nothing waits: another one may have stored something since.
const FRESH: Duration = Duration::from_millis(100);
const MOST_CACHED: usize = 10_000;

const SCHEDULE: BackoffSchedule = BackoffSchedule::new(Duration::from_secs(1), Duration::from_secs(10));
/// A message that comes while its domain cannot be reached has the domain tried again at least this soon.
const DEMAND: Duration = Duration::from_secs(5);
const SETTINGS: OutboxSettings = OutboxSettings {
    lease: Duration::from_secs(30),
    at_once: 16,
    page_rows: 200,
    // To a gateway in another process the page is one frame, of which the mesh accepts 4 MiB.
    page_bytes: 3 << 20,
    withdrawable: true,
    to_peers: true,
    ..OutboxSettings::new(
        "relay",
        RowKind::Payload,
        Retry::Destination { schedule: SCHEDULE, demand: Some(DEMAND) },
    )
};

pub(in super::super) struct PeerOutbox {
    pub rows: Arc<Outbox>,
    writes: Batch<NewOutboxRow, bool>,
    turns: LookupQueues<String>,
    known: Mutex<KnownQueues>,
}

/// The data of a row: who sends the message, and its parameters without their ttl.
#[derive(Serialize, Deserialize)]
pub(super) struct OutboxData {
    /// Set for a message with a ttl: when that is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_until: Option<i64>,
    pub caller_aid: Aid,
    pub device_id: DeviceId,
    pub slot_id: SlotId,
    pub params: Box<RawValue>,
}

/// What is known of the messages for domains without a query.
struct KnownQueues {
    /// Nothing waited for these a moment ago.
    empty: ExpiringCache<String, ()>,
    /// How many are being stored right now, of the domains for which one is.
    storing: HashMap<String, usize>,
}

/// When a message is sent to its domain.
pub(super) enum SendWhen {
    /// Now, and before those that wait for this turn.
    Now(Option<LookupGuard<String>>),
    /// After others that wait already.
    Later,
    /// Now or never: no more may wait.
    NowOrNever,
}

impl PeerOutbox {
    pub async fn open(world: &World, db: &Db) -> sqlx::Result<PeerOutbox> {
        let rows = Outbox::open(world, db, SETTINGS).await?;
        let (store, outbox, tally) = (db.clone(), rows.clone(), world.stores.tally("message"));
        let writes = Batch::start(&world.tracker, tally, QUEUE_BYTES, move |new: Vec<NewOutboxRow>| {
            let (db, outbox) = (store.clone(), outbox.clone());
            async move {
                let mut tx = db.write().await?;
                let added = outbox.add(&mut tx, &new).await?;
                tx.commit().await?;
                Ok(added)
            }
        });
        let known = KnownQueues { empty: ExpiringCache::new(MOST_CACHED, FRESH), storing: HashMap::new() };
        Ok(PeerOutbox { rows, writes, turns: LookupQueues::default(), known: Mutex::new(known) })
    }

    /// When a message is sent. Decided without a query while nothing waits for the domain.
    pub(super) async fn send_when(&self, issuer: &str) -> sqlx::Result<SendWhen> {
        if self.is_empty(issuer) && !self.turns.is_busy(issuer) {
            return Ok(SendWhen::Now(None));
        }
        let turn = self.turns.wait(issuer.to_owned()).await;
        if self.is_empty(issuer) {
            return Ok(SendWhen::Now(Some(turn)));
        }
        let (waiting, bytes) = self.rows.waiting(issuer).await?;
        if bytes > MOST_BYTES {
            return Ok(SendWhen::NowOrNever);
        }
        let mut known = self.known.lock();
        if waiting > 0 || known.storing.contains_key(issuer) {
            return Ok(SendWhen::Later);
        }
        known.empty.insert(issuer.to_owned(), (), Instant::now());
        Ok(SendWhen::Now(Some(turn)))
    }

    fn is_empty(&self, issuer: &str) -> bool {
        let mut known = self.known.lock();
        !known.storing.contains_key(issuer) && known.empty.get(issuer, Instant::now()).is_some()
    }

    /// A message is about to be stored.
    fn begin_storing(&self, issuer: &str) {
        let mut known = self.known.lock();
        *known.storing.entry(issuer.to_owned()).or_default() += 1;
        known.empty.remove(issuer);
    }

    /// It was, or it is not going to be.
    fn end_storing(&self, issuer: &str) {
        let mut known = self.known.lock();
        if let Some(storing) = known.storing.get_mut(issuer) {
            *storing -= 1;
            if *storing == 0 {
                known.storing.remove(issuer);
            }
        }
    }

    /// Stores a message. Returns when it expires: one that waits already keeps its time.
    pub(super) async fn put(&self, new: NewOutboxRow, expires_at: i64) -> Result<i64, Error> {
        let (key, issuer, bytes) = (new.key.clone(), new.destination.clone(), new.data.len() + 256);
        self.begin_storing(&issuer);
        // On drop, so that it is also uncounted when the call is cancelled.
        let _stored = OnDrop(|| self.end_storing(&issuer));
        if self.writes.submit(new, bytes).await? {
            return Ok(expires_at);
        }
        Ok(self.rows.expires_at(&key).await?.unwrap_or(expires_at))
    }

    /// Takes back messages that are not being sent, with `untried` only those that cannot have arrived by an earlier try.
    pub(super) async fn withdraw(
        &self,
        keys: impl Iterator<Item = &MessageKey>,
        untried: bool,
    ) -> sqlx::Result<OutboxWithdrawal> {
        let keys: Vec<String> = keys.map(MessageKey::text).collect();
        self.rows.withdraw(&keys, untried).await
    }
}

/// Calls a function when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
