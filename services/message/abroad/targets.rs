//! Which domains an agent wrote to lately: those are asked when it takes back what is not found here.
//!
//! A row for each agent and domain, not for each message: it is written with the first message, which is answered only
//! then, and again every half minute while more follow. So a recall finds it after a crash and in every process.

use crate::kernel::{Aid, Batch, BatchError, Db, Engine, World};
use crate::message::store::bind::json;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;

/// The two minutes of a recall, and ten for clocks and detours.
const REMEMBER_MS: i64 = 12 * 60_000;
/// A row that is no older than this is as good as new.
const REFRESH_MS: i64 = 30_000;
/// One recall asks no more domains than this, those that were written to last.
const ASKED: i64 = 16;
/// What may wait to be written down.
const QUEUE_BYTES: usize = 4 << 20;
/// How many rows are known without looking. Beyond that each message writes its row.
const MOST: usize = 100_000;
/// A commit that waits behind one of these waits no longer than behind another commit.
const AT_ONCE: i64 = 500;

pub(in super::super) struct Targets {
    db: Db,
    writes: Batch<Went, ()>,
    known: Mutex<Known>,
}

/// What was written down lately.
#[derive(Default)]
struct Known {
    rows: usize,
    by_sender: HashMap<Aid, Vec<(String, i64)>>,
}

/// What was not written down yet, being so.
pub(super) type Noting<'a> = Pin<Box<dyn Future<Output = Result<(), BatchError>> + Send + 'a>>;

/// An agent wrote to a domain.
#[derive(Clone)]
struct Went {
    sender: Aid,
    issuer: String,
    at: i64,
}

impl Known {
    fn is_fresh(&self, sender: &Aid, issuer: &str, now: i64) -> bool {
        let Some(rows) = self.by_sender.get(sender) else { return false };
        rows.iter().any(|(known, at)| known == issuer && (0..REFRESH_MS).contains(&(now - at)))
    }

    fn put(&mut self, sender: &Aid, issuer: &str, now: i64) {
        let before =
            self.by_sender.get_mut(sender).and_then(|rows| rows.iter_mut().find(|row| row.0 == issuer));
        match before {
            Some((_, at)) => *at = now,
            None if self.rows < MOST => {
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

impl Targets {
    pub fn open(world: &World, db: &Db) -> Targets {
        let (store, tally) = (db.clone(), world.stores.tally("message"));
        let writes = Batch::start(&world.tracker, tally, QUEUE_BYTES, move |went: Vec<Went>| {
            let db = store.clone();
            async move { write(&db, went).await }
        });
        Targets { db: db.clone(), writes, known: Mutex::default() }
    }

    /// Has a recall find the domain. Nothing to wait for where that was written down a moment ago.
    pub fn note(&self, sender: &Aid, issuer: &str, now: i64) -> Option<Noting<'_>> {
        if self.known.lock().is_fresh(sender, issuer, now) {
            return None;
        }
        let went = Went { sender: sender.clone(), issuer: issuer.to_owned(), at: now };
        Some(Box::pin(self.write(went)))
    }

    async fn write(&self, went: Went) -> Result<(), BatchError> {
        let Went { sender, issuer, at } = went.clone();
        self.writes.submit(went, sender.as_str().len() + issuer.len() + 128).await?;
        self.known.lock().put(&sender, &issuer, at);
        Ok(())
    }

    /// The domains an agent wrote to since, the latest first.
    pub async fn of(&self, sender: &Aid, now: i64) -> sqlx::Result<Vec<String>> {
        sqlx::query_scalar(
            "SELECT issuer FROM written_to WHERE sender = $1 AND at >= $2 ORDER BY at DESC, issuer LIMIT $3",
        )
        .bind(sender.as_str())
        .bind(now - REMEMBER_MS)
        .bind(ASKED)
        .fetch_all(self.db.read())
        .await
    }

    /// Whether a message of this time can still be asked for.
    pub fn remembers(&self, at: i64, now: i64) -> bool {
        at >= now - REMEMBER_MS
    }

    pub async fn purge(&self, now: i64) -> sqlx::Result<()> {
        self.known.lock().purge(now);
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
            let gone = query.bind(now - REMEMBER_MS).bind(AT_ONCE).execute(self.db.write_alone()).await?;
            if gone.rows_affected() < AT_ONCE as u64 {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn write(db: &Db, went: Vec<Went>) -> sqlx::Result<Vec<()>> {
    let answers = vec![(); went.len()];
    // Each once, and in one order for everybody, so that two processes never wait for each other.
    let mut latest: BTreeMap<(Aid, String), i64> = BTreeMap::new();
    for Went { sender, issuer, at } in went {
        let row = latest.entry((sender, issuer)).or_insert(at);
        *row = at.max(*row);
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
