//! Which domains an agent wrote to lately: those are asked when it recalls what is not found here.
//!
//! A row for each agent and domain, not for each message: it is stored with the first message, which is answered only
//! then, and again every half minute while more follow. So a recall finds it after a crash and in every process.

use crate::store::bind::json;
use kernel::{Aid, Batch, BatchError, Db, Engine, World};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;

/// How much longer than a message can be recalled: for clocks that differ and messages that waited.
const LONGER_MS: i64 = 10 * 60_000;
/// A row that is no older than this is as good as new.
const REFRESH_MS: i64 = 30_000;
/// One recall asks no more domains than this, those that were written to last.
const ASKED: i64 = 16;
/// What may wait to be stored.
const QUEUE_BYTES: usize = 4 << 20;
/// How many rows are cached. Beyond that each message writes its row.
const MOST_CACHED: usize = 100_000;
/// Rows removed in one statement: a commit that waits for it waits no longer than for another commit.
const PURGE_ROWS: i64 = 500;

pub(in super::super) struct RecentPeers {
    db: Db,
    writes: Batch<WrittenTo, ()>,
    cached: Mutex<CachedRows>,
    /// How long a domain is remembered.
    remember_ms: i64,
}

/// The rows that this process stored lately.
#[derive(Default)]
struct CachedRows {
    rows: usize,
    by_sender: HashMap<Aid, Vec<(String, i64)>>,
}

/// A row that is being stored.
pub(super) type Remembering<'a> = Pin<Box<dyn Future<Output = Result<(), BatchError>> + Send + 'a>>;

/// One row: an agent wrote to a domain.
#[derive(Clone)]
struct WrittenTo {
    sender: Aid,
    issuer: String,
    at: i64,
}

impl CachedRows {
    fn is_fresh(&self, sender: &Aid, issuer: &str, now: i64) -> bool {
        let Some(rows) = self.by_sender.get(sender) else { return false };
        rows.iter().any(|(cached, at)| cached == issuer && (0..REFRESH_MS).contains(&(now - at)))
    }

    fn put(&mut self, sender: &Aid, issuer: &str, now: i64) {
        let before =
            self.by_sender.get_mut(sender).and_then(|rows| rows.iter_mut().find(|row| row.0 == issuer));
        match before {
            Some((_, at)) => *at = now,
            None if self.rows < MOST_CACHED => {
                self.rows += 1;
                self.by_sender.entry(sender.clone()).or_default().push((issuer.to_owned(), now));
            }
            None => {}
        }
    }

    fn purge(&mut self, now: i64) {
        self.by_sender.retain(|_, rows| {
            rows.retain(|(_, at)| (0..REFRESH_MS).contains(&(now - at)));
            !rows.is_empty()
        });
        self.rows = self.by_sender.values().map(Vec::len).sum();
    }
}

impl RecentPeers {
    /// `recall_ms` is how long after it was sent a message can be recalled.
    pub fn open(world: &World, db: &Db, recall_ms: i64) -> RecentPeers {
        let (store, tally) = (db.clone(), world.stores.tally("message"));
        let writes = Batch::start(&world.tracker, tally, QUEUE_BYTES, move |rows: Vec<WrittenTo>| {
            let db = store.clone();
            async move { write(&db, rows).await }
        });
        let remember_ms = recall_ms.saturating_add(LONGER_MS);
        RecentPeers { db: db.clone(), writes, cached: Mutex::default(), remember_ms }
    }

    /// Has a recall find the domain. `None` where that was stored a moment ago.
    pub fn remember(&self, sender: &Aid, issuer: &str, now: i64) -> Option<Remembering<'_>> {
        if self.cached.lock().is_fresh(sender, issuer, now) {
            return None;
        }
        let row = WrittenTo { sender: sender.clone(), issuer: issuer.to_owned(), at: now };
        Some(Box::pin(self.write(row)))
    }

    async fn write(&self, row: WrittenTo) -> Result<(), BatchError> {
        let WrittenTo { sender, issuer, at } = row.clone();
        self.writes.submit(row, sender.as_str().len() + issuer.len() + 128).await?;
        self.cached.lock().put(&sender, &issuer, at);
        Ok(())
    }

    /// The domains an agent wrote to lately, the latest first.
    pub async fn of(&self, sender: &Aid, now: i64) -> sqlx::Result<Vec<String>> {
        sqlx::query_scalar(
            "SELECT issuer FROM written_to WHERE sender = $1 AND at >= $2 ORDER BY at DESC, issuer LIMIT $3",
        )
        .bind(sender.as_str())
        .bind(now - self.remember_ms)
        .bind(ASKED)
        .fetch_all(self.db.read())
        .await
    }

    /// Whether the domain of a message of this time is still remembered.
    pub fn remembers(&self, at: i64, now: i64) -> bool {
        at >= now - self.remember_ms
    }

    pub async fn purge(&self, now: i64) -> sqlx::Result<()> {
        self.cached.lock().purge(now);
        loop {
            let query = match self.db.engine() {
                Engine::Sqlite => sqlx::query(
                    "DELETE FROM written_to WHERE (sender, issuer) IN
                     (SELECT sender, issuer FROM written_to WHERE at < $1 ORDER BY at LIMIT $2)",
                ),
                Engine::Postgres => sqlx::query(
                    "DELETE FROM written_to WHERE at < $1
                     AND ctid = ANY(ARRAY(SELECT ctid FROM written_to WHERE at < $1 ORDER BY at LIMIT $2))",
                ),
            };
            let gone =
                query.bind(now - self.remember_ms).bind(PURGE_ROWS).execute(self.db.write_alone()).await?;
            if gone.rows_affected() < PURGE_ROWS as u64 {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn write(db: &Db, rows: Vec<WrittenTo>) -> sqlx::Result<Vec<()>> {
    let answers = vec![(); rows.len()];
    // Each once, and in the same order in every process, so that two of them never wait for each other.
    let mut latest: BTreeMap<(Aid, String), i64> = BTreeMap::new();
    for WrittenTo { sender, issuer, at } in rows {
        let last = latest.entry((sender, issuer)).or_insert(at);
        *last = at.max(*last);
    }
    let rows: Vec<(&str, &String, i64)> =
        latest.iter().map(|((sender, issuer), at)| (sender.as_str(), issuer, *at)).collect();
    let query = match db.engine() {
        Engine::Sqlite => sqlx::query(
            "INSERT INTO written_to (sender, issuer, at)
             SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($1) WHERE true
             ON CONFLICT (sender, issuer) DO UPDATE SET at = excluded.at WHERE excluded.at > written_to.at",
        ),
        Engine::Postgres => sqlx::query(
            "INSERT INTO written_to (sender, issuer, at)
             SELECT v ->> 0, v ->> 1, CAST(v ->> 2 AS BIGINT)
             FROM json_array_elements(CAST($1 AS JSON)) AS v ORDER BY 1, 2
             ON CONFLICT (sender, issuer) DO UPDATE SET at = excluded.at WHERE excluded.at > written_to.at",
        ),
    };
    query.bind(json(&rows)).execute(db.write_alone()).await?;
    Ok(answers)
}
