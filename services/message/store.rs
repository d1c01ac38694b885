//! The log of messages and the index over it.
//!
//! On SQLite the index is a file of its own, written behind the log: scattered over inboxes as it is, it would cost a
//! commit several times what the message costs. What is not filed yet is in memory, and after a crash it is read from
//! the log again. On PostgreSQL, where several processes may write, the log is its own index.

use super::filter::Filter;
use super::stored_message::{Key, StoredMessage};
use super::tail::Tail;
use crate::kernel::{Aid, Db, Engine, World};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many messages are filed in one transaction.
pub(super) const FILE_AT_ONCE: usize = 16_384;
/// What may wait to be filed before nothing more is taken.
pub(super) const UNFILED_BYTES: usize = 64 << 20;

/// Where an inbox stands: its last number, and the highest one that was removed for its age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub head: i64,
    pub floor: i64,
}

pub(super) struct Store {
    pub(super) db: Db,
    pub(super) index: Db,
    pub(super) tail: RwLock<Tail>,
    /// The standing of every inbox. On PostgreSQL the table is asked instead.
    pub(super) standings: RwLock<HashMap<i64, Standing>>,
    /// What the index calls the senders it met. PostgreSQL calls them by their names.
    pub(super) senders_known: Mutex<HashMap<Aid, i64>>,
    pub(super) filter: Filter,
    /// Whether something was committed since the journal was last moved into its file.
    written: AtomicBool,
}

impl Store {
    pub async fn open(world: &World) -> anyhow::Result<Store> {
        let db = match world.store.engine() {
            Engine::Sqlite => world.busy_db("message", &sqlx::migrate!("message/migrations/sqlite")).await?,
            Engine::Postgres => {
                world.busy_db("message", &sqlx::migrate!("message/migrations/postgres")).await?
            }
        };
        let index = match db.engine() {
            Engine::Sqlite => {
                world.derived_db("message-index", &sqlx::migrate!("message/migrations/index")).await?
            }
            Engine::Postgres => db.clone(),
        };
        let store = Store {
            db,
            index,
            tail: RwLock::default(),
            standings: RwLock::default(),
            senders_known: Mutex::default(),
            filter: Filter::default(),
            written: AtomicBool::default(),
        };
        if store.files_behind() {
            store.catch_up().await?;
        }
        Ok(store)
    }

    pub fn db(&self) -> &Db {
        &self.db
    }

    pub fn files_behind(&self) -> bool {
        self.db.engine() == Engine::Sqlite
    }

    /// Reads what the index knows, and files what the log has beyond that.
    async fn catch_up(&self) -> sqlx::Result<()> {
        let rows: Vec<(i64, i64, i64)> =
            sqlx::query_as("SELECT inbox, seq, floor FROM head").fetch_all(self.index.read()).await?;
        let mut known: HashMap<i64, Standing> =
            rows.into_iter().map(|(inbox, head, floor)| (inbox, Standing { head, floor })).collect();
        // What was removed is not in the log any more, but its numbers were given: the log's own file remembers them.
        let removed: Vec<(i64, i64)> =
            sqlx::query_as("SELECT id, floor FROM inbox WHERE floor > 0").fetch_all(self.db.read()).await?;
        for (inbox, floor) in removed {
            let standing = known.entry(inbox).or_default();
            *standing = Standing { head: standing.head.max(floor), floor: standing.floor.max(floor) };
        }
        *self.standings.write() = known;
        let mut through: i64 =
            sqlx::query_scalar("SELECT through FROM filed").fetch_one(self.index.read()).await?;
        loop {
            let messages = self.log_after(through, FILE_AT_ONCE).await?;
            let Some(last) = messages.last() else { return Ok(()) };
            through = last.id;
            self.take_in(messages);
            self.file(Duration::ZERO).await?;
        }
    }

    /// The messages of the log after this one.
    pub async fn log_after(&self, id: i64, most: usize) -> sqlx::Result<Vec<Arc<StoredMessage>>> {
        let rows: Vec<(i64, String)> =
            sqlx::query_as("SELECT id, data FROM letter WHERE id > $1 ORDER BY id LIMIT $2")
                .bind(id)
                .bind(most as i64)
                .fetch_all(self.db.read())
                .await?;
        rows.into_iter().map(|(id, data)| read(id, &data)).collect()
    }

    /// Makes committed messages visible, in the order of the log.
    pub fn take_in(&self, messages: Vec<Arc<StoredMessage>>) {
        self.filter.add(messages.iter().map(|message| message.key));
        // Both locks, so that no number is seen before its message can be read.
        let (mut tail, mut standings) = (self.tail.write(), self.standings.write());
        for message in messages {
            for place in &message.places {
                let standing = standings.entry(place.inbox).or_default();
                standing.head = standing.head.max(place.seq);
            }
            tail.push(message);
        }
    }

    /// Tells the filter of everything that is stored; from then on it can be sure.
    pub async fn fill_filter(&self, now: i64) -> sqlx::Result<()> {
        if !self.files_behind() {
            return Ok(()); // Others store messages, too: the filter can never be sure, and is not asked.
        }
        let mut after = 0_i64;
        loop {
            let messages = self.log_after(after, 1000).await?;
            let Some(last) = messages.last() else { break };
            after = last.id;
            self.filter.add(messages.iter().map(|message| message.key));
        }
        self.filter.complete(now);
        Ok(())
    }

    pub fn turn_filter(&self, now: i64, period: i64) {
        self.filter.turn(now, period);
    }

    pub fn replace(&self, changed: &[Arc<StoredMessage>]) {
        let mut tail = self.tail.write();
        changed.iter().for_each(|message| tail.replace(message));
    }

    pub fn was_written(&self) {
        self.written.store(true, Ordering::Relaxed);
    }

    /// Moves the journal into its file, if there is anything in it.
    pub async fn checkpoint(&self) -> sqlx::Result<()> {
        if self.written.swap(false, Ordering::Relaxed) { self.db.checkpoint().await } else { Ok(()) }
    }

    /// Messages that wait to be filed, and what they weigh.
    pub fn unfiled(&self) -> (usize, usize) {
        let tail = self.tail.read();
        (tail.len(), tail.bytes())
    }

    pub async fn standing(&self, inbox: i64) -> sqlx::Result<Standing> {
        if self.files_behind() {
            return Ok(self.standings.read().get(&inbox).copied().unwrap_or_default());
        }
        let row: Option<(i64, i64)> =
            sqlx::query_as("SELECT last_number(inbox, floor), floor FROM head WHERE inbox = $1")
                .bind(inbox)
                .fetch_optional(self.index.read())
                .await?;
        Ok(row.map_or_else(Standing::default, |(head, floor)| Standing { head, floor }))
    }

    /// The standing of an inbox as the committing task knows it.
    pub fn head(&self, inbox: i64) -> i64 {
        self.standings.read().get(&inbox).map_or(0, |standing| standing.head)
    }
}

pub(super) fn read(id: i64, data: &str) -> sqlx::Result<Arc<StoredMessage>> {
    let mut message: StoredMessage =
        serde_json::from_str(data).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    message.id = id;
    message.key = Key::new(&message.from, &message.message_id);
    Ok(Arc::new(message))
}

/// What goes into a statement that takes many rows at once.
pub(super) fn json(rows: &impl serde::Serialize) -> String {
    serde_json::to_string(rows).unwrap_or_default()
}
