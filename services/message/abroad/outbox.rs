//! Messages that wait for domains that cannot be reached: every statement over them.
//!
//! They are in the database and nowhere else; a page of them is read when it is sent. Which process delivers to a
//! domain is the database's decision, too: a lease that runs out, with a number that says which lease it was.

use super::rows::{count_out, insert, list, take_out};
use crate::kernel::{Aid, Audience, Batch, Db, DeviceId, Engine, Event, SlotId, World};
use crate::message::Error;
use crate::message::sending::lookup_queue::{LookupGuard, LookupQueues};
use crate::message::store::stored_message::MessageKey;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What may wait to be written down.
const QUEUE_BYTES: usize = 32 << 20;
/// A message that comes while the domain is away has it tried again at least this soon.
pub(super) const DEMAND_MS: i64 = 5000;
/// What may wait for one domain; beyond that its senders are told at once.
const MOST_BYTES: i64 = 1 << 30;
/// How long it is believed that nothing waits: another process may have had to keep something since.
const FRESH: Duration = Duration::from_millis(100);
const MOST_SEEN: usize = 10_000;
const MOST_POKES: usize = 1000;
const PEER_UP: &str = "federation.peer_up";

pub(in super::super) struct Outbox {
    pub(super) db: Db,
    writes: Batch<New, bool>,
    last: AtomicI64,
    pub(super) wake: Arc<Wake>,
    turns: LookupQueues<String>,
    seen: Mutex<HashMap<String, Seen>>,
    /// The leases this process has, by their domains.
    pub(super) held: Mutex<HashMap<String, i64>>,
}

/// What is known of the messages for a domain without looking.
#[derive(Default)]
struct Seen {
    /// Nothing waited a moment ago.
    empty_until: Option<Instant>,
    /// How many are being written down right now.
    coming: usize,
}

/// How a message goes to a domain.
pub(super) enum Way {
    /// Now, and before those who wait for this turn.
    Direct(Option<LookupGuard<String>>),
    /// Behind others that wait already.
    Behind,
    /// Now or never: no more can wait.
    Full,
}

/// What has the delivery look around at once.
#[derive(Default)]
pub(in super::super) struct Wake {
    pub notify: Notify,
    /// Domains that were heard of again.
    pub poked: Mutex<HashSet<String>>,
}

/// A message to be kept.
pub(in super::super) struct New {
    pub key: MessageKey,
    pub issuer: String,
    pub nth: i64,
    pub at: i64,
    pub expires_at: i64,
    pub ttl_until: Option<i64>,
    /// When it may have got there already.
    pub tried: Option<i64>,
    pub data: String,
}

/// What of a message is kept: who sends it, and its parameters without their time to live.
#[derive(Serialize, Deserialize)]
pub(in super::super) struct Kept {
    pub caller_aid: Aid,
    pub device_id: DeviceId,
    pub slot_id: SlotId,
    pub params: Box<RawValue>,
}

impl Wake {
    /// The gateway says that a domain has just proved itself, on its own way or on ours.
    fn hear(&self, event: &Event) {
        #[derive(Deserialize)]
        struct PeerUp {
            issuer: String,
        }
        if event.to != Audience::Gateways || event.method != PEER_UP {
            return;
        }
        let Ok(PeerUp { issuer }) = serde_json::from_str(event.params.get()) else { return };
        let mut poked = self.poked.lock();
        if poked.len() < MOST_POKES {
            poked.insert(issuer);
            self.notify.notify_one();
        }
    }
}

impl Outbox {
    pub async fn open(world: &World, db: &Db) -> sqlx::Result<Outbox> {
        if db.engine() == Engine::Sqlite {
            // Nobody else is there: whoever had a lease was this server before it stopped.
            sqlx::query("UPDATE outbox_peer SET leased_until = 0").execute(db.write_alone()).await?;
        }
        let wake = Arc::<Wake>::default();
        let poked = wake.clone();
        world.bus.listen(move |event| poked.hear(event));
        let (store, tally) = (db.clone(), world.stores.tally("message"));
        let writes = Batch::start(&world.tracker, tally, QUEUE_BYTES, move |rows: Vec<New>| {
            let db = store.clone();
            async move { insert(&db, rows).await }
        });
        Ok(Outbox {
            db: db.clone(),
            writes,
            last: AtomicI64::new(0),
            wake,
            turns: LookupQueues::default(),
            seen: Mutex::default(),
            held: Mutex::default(),
        })
    }

    /// The place of a message in the order: taken when it comes, whatever is tried before it has to wait.
    pub fn place(&self, now: i64) -> i64 {
        let next = |last: i64| (last + 1).max(now << 20);
        let before = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        next(before.unwrap_or_default())
    }

    /// Which way a message goes. Answered without waiting while nothing waits for the domain.
    pub(super) async fn way(&self, issuer: &str) -> sqlx::Result<Way> {
        if self.is_empty(issuer) && !self.turns.is_busy(issuer) {
            return Ok(Way::Direct(None));
        }
        let turn = self.turns.wait(issuer.to_owned()).await;
        if self.is_empty(issuer) {
            return Ok(Way::Direct(Some(turn)));
        }
        let (waiting, bytes) = self.waiting(issuer).await?;
        if bytes > MOST_BYTES {
            return Ok(Way::Full);
        }
        let mut seen = self.seen.lock();
        if seen.len() > MOST_SEEN {
            seen.retain(|_, seen| seen.coming > 0);
        }
        let seen = seen.entry(issuer.to_owned()).or_default();
        if waiting > 0 || seen.coming > 0 {
            return Ok(Way::Behind);
        }
        seen.empty_until = Some(Instant::now() + FRESH);
        Ok(Way::Direct(Some(turn)))
    }

    fn is_empty(&self, issuer: &str) -> bool {
        let seen = self.seen.lock();
        let Some(seen) = seen.get(issuer) else { return false };
        seen.coming == 0 && seen.empty_until.is_some_and(|until| until > Instant::now())
    }

    /// Says that a message is about to wait, or that it does now.
    fn coming(&self, issuer: &str, by: isize) {
        let mut seen = self.seen.lock();
        let seen = seen.entry(issuer.to_owned()).or_default();
        seen.coming = seen.coming.saturating_add_signed(by);
        seen.empty_until = None;
    }

    /// How many messages wait for a domain, and what they weigh.
    pub async fn waiting(&self, issuer: &str) -> sqlx::Result<(i64, i64)> {
        let row: Option<(i64, i64)> =
            sqlx::query_as("SELECT waiting, bytes FROM outbox_peer WHERE issuer = $1")
                .bind(issuer)
                .fetch_optional(self.db.read())
                .await?;
        Ok(row.unwrap_or_default())
    }

    /// Keeps a message. Gives until when: one that waits already keeps its time.
    pub(super) async fn put(&self, new: New) -> Result<i64, Error> {
        let (key, expires_at, bytes) = (new.key.text(), new.expires_at, new.data.len() + 256);
        let issuer = new.issuer.clone();
        self.coming(&issuer, 1);
        // Also when nobody waits for it any more.
        let _came = Came(|| self.coming(&issuer, -1));
        if self.writes.submit(new, bytes).await? {
            return Ok(expires_at);
        }
        let first: Option<i64> = sqlx::query_scalar("SELECT expires_at FROM outbox WHERE key = $1")
            .bind(key)
            .fetch_optional(self.db.read())
            .await?;
        Ok(first.unwrap_or(expires_at))
    }

    /// The domains whose turn it is.
    pub async fn due(&self, now: i64) -> sqlx::Result<Vec<String>> {
        sqlx::query_scalar(
            "SELECT issuer FROM outbox_peer WHERE waiting > 0 AND next_try <= $1 AND leased_until <= $1
             ORDER BY next_try LIMIT 64",
        )
        .bind(now)
        .fetch_all(self.db.read())
        .await
    }

    /// Has a domain tried at once.
    pub async fn hurry(&self, issuer: &str) -> sqlx::Result<()> {
        let query = sqlx::query("UPDATE outbox_peer SET next_try = 0 WHERE issuer = $1 AND next_try > 0");
        query.bind(issuer).execute(self.db.write_alone()).await?;
        Ok(())
    }

    /// Takes back messages that are not on their way yet; those that may have got there before only if that is known not to
    /// be so. Gives them, and where the others are on their way to.
    pub async fn withdraw(&self, keys: &[MessageKey], untried: bool) -> sqlx::Result<Withdrawn> {
        let names: Vec<String> = keys.iter().map(MessageKey::text).collect();
        let query = match self.db.engine() {
            Engine::Sqlite => sqlx::query_as(
                "SELECT key, issuer FROM outbox WHERE key IN (SELECT value FROM json_each($1))",
            ),
            Engine::Postgres => {
                sqlx::query_as("SELECT key, issuer FROM outbox WHERE key = ANY(string_to_array($1, ','))")
            }
        };
        let rows: Vec<(String, String)> =
            query.bind(list(self.db.engine(), &names)).fetch_all(self.db.read()).await?;
        let mut left: BTreeMap<String, String> = rows.into_iter().collect();
        let mut withdrawn = HashSet::new();
        let issuers: HashSet<String> = left.values().cloned().collect();
        for issuer in issuers {
            let mine: Vec<&String> =
                left.iter().filter(|(_, other)| **other == issuer).map(|(key, _)| key).collect();
            let mut tx = self.db.write().await?;
            // The row is locked: what is not on its way now will not be before this is over.
            let sending: i64 = sqlx::query_scalar(
                "UPDATE outbox_peer SET fence = fence WHERE issuer = $1 RETURNING sending",
            )
            .bind(issuer.as_str())
            .fetch_one(&mut *tx)
            .await?;
            let gone =
                take_out(&mut tx, self.db.engine(), &list(self.db.engine(), &mine), sending, untried).await?;
            count_out(&mut tx, &issuer, &gone, [0; 3]).await?;
            tx.commit().await?;
            withdrawn.extend(gone.into_iter().map(|(key, _)| key));
        }
        left.retain(|key, _| !withdrawn.contains(key));
        Ok((withdrawn, left))
    }
}

/// What was taken back, and what waits on, each with its domain.
pub(super) type Withdrawn = (HashSet<String>, BTreeMap<String, String>);

/// Does something at the end, however it ends.
struct Came<F: Fn()>(F);

impl<F: Fn()> Drop for Came<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
