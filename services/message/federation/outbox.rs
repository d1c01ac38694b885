//! The durable outbox: messages that wait for domains that cannot be reached.
//!
//! They are in the database and nowhere else; a page of them is read when it is sent. Which process delivers to a
//! domain is decided in the database, too: by a lease that runs out, with a fence that tells one lease from the next.

use super::rows::{NewOutboxRow, count_out, insert, list, remove};
use crate::Error;
use crate::sending::lookup_queue::{LookupGuard, LookupQueues};
use crate::store::stored_message::MessageKey;
use kernel::{Batch, Db, Engine, Event, World};
use parking_lot::Mutex;
use proto_schemas::requests::federation::PeerUp;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What may wait to be stored.
const QUEUE_BYTES: usize = 32 << 20;
/// What may wait for one domain; beyond that a message is sent now or its sender gets the error.
const MOST_BYTES: i64 = 1 << 30;
/// How long this process may assume that nothing waits: another one may have stored something since.
const FRESH: Duration = Duration::from_millis(100);
const MOST_CACHED: usize = 10_000;
const MOST_REACHABLE: usize = 1000;

pub(in super::super) struct PeerOutbox {
    pub(super) db: Db,
    writes: Batch<NewOutboxRow, bool>,
    /// The position that was given last.
    last: AtomicI64,
    pub(super) wake: Arc<Wake>,
    turns: LookupQueues<String>,
    cached: Mutex<HashMap<String, CachedPeer>>,
    /// The leases this process has, by their domains.
    pub(super) held: Mutex<HashMap<String, i64>>,
}

/// What is known of the messages for a domain without a query.
#[derive(Default)]
struct CachedPeer {
    /// Nothing waited a moment ago.
    empty_until: Option<Instant>,
    /// How many are being stored right now.
    storing: usize,
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

/// What wakes the delivery before its next tick.
#[derive(Default)]
pub(super) struct Wake {
    pub notify: Notify,
    /// Domains that can be reached again.
    pub reachable: Mutex<HashSet<String>>,
}

impl Wake {
    /// The gateway publishes that a peer link was proved, whichever side opened it.
    fn on_event(&self, event: &Event) {
        let Some(PeerUp { issuer }) = event.as_signal() else { return };
        let mut reachable = self.reachable.lock();
        if reachable.len() < MOST_REACHABLE {
            reachable.insert(issuer);
            self.notify.notify_one();
        }
    }
}

impl PeerOutbox {
    pub async fn open(world: &World, db: &Db) -> sqlx::Result<PeerOutbox> {
        if db.engine() == Engine::Sqlite {
            // There is no other process: a lease is left from this server before it stopped.
            sqlx::query("UPDATE outbox_peer SET leased_until = 0").execute(db.write_alone()).await?;
        }
        let wake = Arc::<Wake>::default();
        let woken = wake.clone();
        world.bus.listen(move |event| woken.on_event(event));
        let (store, tally) = (db.clone(), world.stores.tally("message"));
        let writes = Batch::start(&world.tracker, tally, QUEUE_BYTES, move |rows: Vec<NewOutboxRow>| {
            let db = store.clone();
            async move { insert(&db, rows).await }
        });
        Ok(PeerOutbox {
            db: db.clone(),
            writes,
            last: AtomicI64::new(0),
            wake,
            turns: LookupQueues::default(),
            cached: Mutex::default(),
            held: Mutex::default(),
        })
    }

    /// The position of a message in the order: given when it comes, whatever is tried before it has to wait.
    pub fn next_position(&self, now: i64) -> i64 {
        let next = |last: i64| (last + 1).max(now << 20);
        let before = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        next(before.unwrap_or_default())
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
        let (waiting, bytes) = self.waiting(issuer).await?;
        if bytes > MOST_BYTES {
            return Ok(SendWhen::NowOrNever);
        }
        let mut cached = self.cached.lock();
        if cached.len() > MOST_CACHED {
            cached.retain(|_, peer| peer.storing > 0);
        }
        let peer = cached.entry(issuer.to_owned()).or_default();
        if waiting > 0 || peer.storing > 0 {
            return Ok(SendWhen::Later);
        }
        peer.empty_until = Some(Instant::now() + FRESH);
        Ok(SendWhen::Now(Some(turn)))
    }

    fn is_empty(&self, issuer: &str) -> bool {
        let cached = self.cached.lock();
        let Some(peer) = cached.get(issuer) else { return false };
        peer.storing == 0 && peer.empty_until.is_some_and(|until| until > Instant::now())
    }

    /// Counts a message that is about to be stored, or that was.
    fn count_storing(&self, issuer: &str, by: isize) {
        let mut cached = self.cached.lock();
        let peer = cached.entry(issuer.to_owned()).or_default();
        peer.storing = peer.storing.saturating_add_signed(by);
        peer.empty_until = None;
    }

    /// How many messages wait for a domain, and how large they are together.
    pub async fn waiting(&self, issuer: &str) -> sqlx::Result<(i64, i64)> {
        let row: Option<(i64, i64)> =
            sqlx::query_as("SELECT waiting, bytes FROM outbox_peer WHERE issuer = $1")
                .bind(issuer)
                .fetch_optional(self.db.read())
                .await?;
        Ok(row.unwrap_or_default())
    }

    /// Stores a message. Returns when it expires: one that waits already keeps its time.
    pub(super) async fn put(&self, new: NewOutboxRow) -> Result<i64, Error> {
        let (key, expires_at, bytes) = (new.key.text(), new.expires_at, new.data.len() + 256);
        let issuer = new.issuer.clone();
        self.count_storing(&issuer, 1);
        // On drop, so that it is also uncounted when the call is cancelled.
        let _stored = OnDrop(|| self.count_storing(&issuer, -1));
        if self.writes.submit(new, bytes).await? {
            return Ok(expires_at);
        }
        let first: Option<i64> = sqlx::query_scalar("SELECT expires_at FROM outbox WHERE key = $1")
            .bind(key)
            .fetch_optional(self.db.read())
            .await?;
        Ok(first.unwrap_or(expires_at))
    }

    /// The domains that are to be delivered to now.
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
    pub async fn retry_now(&self, issuer: &str) -> sqlx::Result<()> {
        let query = sqlx::query("UPDATE outbox_peer SET next_try = 0 WHERE issuer = $1 AND next_try > 0");
        query.bind(issuer).execute(self.db.write_alone()).await?;
        Ok(())
    }

    /// Removes messages that are not being sent, with `untried` only those that cannot have arrived by an earlier try.
    /// Returns them, and the domains of the others.
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
            // This locks the row of the domain until the commit: the process that delivers writes `sending` there before it sends, so
            // what is not being sent now cannot be before it is removed.
            let sending: i64 = sqlx::query_scalar(
                "UPDATE outbox_peer SET fence = fence WHERE issuer = $1 RETURNING sending",
            )
            .bind(issuer.as_str())
            .fetch_one(&mut *tx)
            .await?;
            let gone =
                remove(&mut tx, self.db.engine(), &list(self.db.engine(), &mine), sending, untried).await?;
            count_out(&mut tx, &issuer, &gone, [0; 3]).await?;
            tx.commit().await?;
            withdrawn.extend(gone.into_iter().map(|(key, _)| key));
        }
        left.retain(|key, _| !withdrawn.contains(key));
        Ok((withdrawn, left))
    }
}

/// The keys that were removed, and the keys that still wait, with their domains.
pub(super) type Withdrawn = (HashSet<String>, BTreeMap<String, String>);

/// Calls a function when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
