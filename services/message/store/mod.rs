//! The log of messages and the index over it.
//!
//! On SQLite the index is a file of its own, written behind the log: scattered over inboxes as it is, it would cost a
//! commit several times what the message costs. What is not indexed yet is in memory, and after a crash it is read
//! from the log again. On PostgreSQL, where several processes may write, the log is its own index.

pub(super) mod bind;
pub(super) mod cursors;
mod devices;
mod ended_agents;
pub(super) mod ephemeral;
pub(super) mod error;
pub(super) mod inboxes;
mod known_ids;
pub(super) mod ledger;
pub(super) mod lookup;
mod postgres;
pub(super) mod quotas;
mod recall;
mod retention;
mod sqlite;
pub(super) mod stored_message;
pub(super) mod tool_calls;
pub(super) mod write;

use kernel::{Aid, Cache, Db, Engine, World};
use parking_lot::{Mutex, RwLock};
use sqlite::seen_filter::SeenFilter;
use sqlite::unindexed::Unindexed;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stored_message::StoredMessage;

/// How many messages are indexed in one transaction.
const INDEX_BATCH: usize = 16_384;
/// How many senders' ids are cached. A sender keeps its id, so that of one that was evicted is read again.
const MAX_SENDERS: usize = 100_000;
/// How many removed inboxes wait to be removed from the index.
const MAX_REMOVED: usize = 100_000;

/// The last seq of an inbox, and the highest one that was removed for its age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InboxState {
    pub head: i64,
    pub floor: i64,
}

pub(super) struct Store {
    pub(super) db: Db,
    index: Db,
    /// On PostgreSQL every message is indexed in its own commit, and this stays empty.
    unindexed: RwLock<Unindexed>,
    /// Of every inbox. On PostgreSQL the table is read instead.
    inbox_states: RwLock<HashMap<i64, InboxState>>,
    /// The ids that senders have in the index. PostgreSQL stores their AIDs.
    sender_ids: Mutex<Cache<Aid, i64>>,
    /// Inboxes that were removed and that the index still knows. PostgreSQL removes both at once.
    removed_inboxes: Mutex<Vec<i64>>,
    seen: SeenFilter,
    /// Whether something was committed since the journal was last moved into its file.
    written: AtomicBool,
}

impl Store {
    pub async fn open(world: &World) -> anyhow::Result<Store> {
        let db = match world.store.engine() {
            Engine::Sqlite => world.busy_db("message", &sqlx::migrate!("./migrations/sqlite")).await?,
            Engine::Postgres => world.busy_db("message", &sqlx::migrate!("./migrations/postgres")).await?,
        };
        let index = match db.engine() {
            Engine::Sqlite => {
                world.derived_db("message-index", &sqlx::migrate!("./migrations/index")).await?
            }
            Engine::Postgres => db.clone(),
        };
        let store = Store {
            db,
            index,
            unindexed: RwLock::default(),
            inbox_states: RwLock::default(),
            sender_ids: Mutex::new(Cache::new(MAX_SENDERS)),
            removed_inboxes: Mutex::default(),
            seen: SeenFilter::default(),
            written: AtomicBool::default(),
        };
        if store.has_separate_index() {
            store.catch_up().await?;
        }
        Ok(store)
    }

    pub fn db(&self) -> &Db {
        &self.db
    }

    /// On SQLite, where the index is written behind the log.
    pub fn has_separate_index(&self) -> bool {
        self.db.engine() == Engine::Sqlite
    }

    /// Reads what the index has, and indexes what the log has beyond that.
    async fn catch_up(&self) -> sqlx::Result<()> {
        let rows: Vec<(i64, i64, i64)> =
            sqlx::query_as("SELECT inbox, seq, floor FROM head").fetch_all(self.index.read()).await?;
        let inboxes: Vec<(i64, i64)> =
            sqlx::query_as("SELECT id, floor FROM inbox").fetch_all(self.db.read()).await?;
        let floors: HashMap<i64, i64> = inboxes.into_iter().collect();
        let (existing, removed): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|(inbox, ..)| floors.contains_key(inbox));
        self.removed_inboxes.lock().extend(removed.into_iter().map(|(inbox, ..)| inbox));
        let mut known: HashMap<i64, InboxState> =
            existing.into_iter().map(|(inbox, head, floor)| (inbox, InboxState { head, floor })).collect();
        // What was removed is not in the log any more, but its seqs were given: the log's own file has them.
        for (inbox, floor) in floors.into_iter().filter(|(_, floor)| *floor > 0) {
            let state = known.entry(inbox).or_default();
            *state = InboxState { head: state.head.max(floor), floor: state.floor.max(floor) };
        }
        *self.inbox_states.write() = known;
        let mut through = self.indexed_through().await?;
        loop {
            let messages = self.log_after(through, INDEX_BATCH).await?;
            let Some(last) = messages.last() else { return Ok(()) };
            through = last.id;
            self.add_committed(messages);
            self.index_oldest(Duration::ZERO).await?;
        }
    }

    /// The id of the last message that the index has, on SQLite; the message itself may have been removed.
    async fn indexed_through(&self) -> sqlx::Result<i64> {
        sqlx::query_scalar("SELECT through FROM filed").fetch_one(self.index.read()).await
    }

    /// The highest id that a message of the log has had, on SQLite. An id is not given twice: a message with an id that the index has
    /// passed would not be indexed after a crash.
    pub async fn last_id(&self) -> sqlx::Result<i64> {
        let last: i64 =
            sqlx::query_scalar("SELECT COALESCE(MAX(id), 0) FROM letter").fetch_one(self.db.read()).await?;
        Ok(last.max(self.indexed_through().await?))
    }

    /// The messages of the log after this one.
    pub async fn log_after(&self, id: i64, most: usize) -> sqlx::Result<Vec<Arc<StoredMessage>>> {
        let rows: Vec<(i64, String)> =
            sqlx::query_as("SELECT id, data FROM letter WHERE id > $1 ORDER BY id LIMIT $2")
                .bind(id)
                .bind(most as i64)
                .fetch_all(self.db.read())
                .await?;
        rows.into_iter().map(|(id, data)| StoredMessage::read(id, &data)).collect()
    }

    /// Makes committed messages visible, in the order of the log.
    pub fn add_committed(&self, messages: Vec<Arc<StoredMessage>>) {
        self.seen.add(messages.iter().map(|message| message.key));
        // Both locks, so that no seq is seen before its message can be read.
        let (mut unindexed, mut states) = (self.unindexed.write(), self.inbox_states.write());
        for message in messages {
            for entry in &message.entries {
                let state = states.entry(entry.inbox).or_default();
                state.head = state.head.max(entry.seq);
            }
            unindexed.push(message);
        }
    }

    /// Adds everything that is stored to the filter; from then on what it does not hold was never sent.
    pub async fn fill_filter(&self, now: i64) -> sqlx::Result<()> {
        if !self.has_separate_index() {
            return Ok(()); // Other processes store messages, too: the filter could never be complete, and is not used.
        }
        let mut after = 0_i64;
        loop {
            let messages = self.log_after(after, 1000).await?;
            let Some(last) = messages.last() else { break };
            after = last.id;
            self.seen.add(messages.iter().map(|message| message.key));
        }
        self.seen.complete(now);
        Ok(())
    }

    pub fn rotate_filter(&self, now: i64, period: i64) {
        self.seen.rotate(now, period);
    }

    /// Makes recalled messages visible as they are now.
    pub fn replace(&self, changed: &[Arc<StoredMessage>]) {
        let mut unindexed = self.unindexed.write();
        changed.iter().for_each(|message| unindexed.replace(message));
    }

    pub fn was_written(&self) {
        self.written.store(true, Ordering::Relaxed);
    }

    /// Moves the journal into its file, if there is anything in it.
    pub async fn checkpoint(&self) -> sqlx::Result<()> {
        if self.written.swap(false, Ordering::Relaxed) { self.db.checkpoint().await } else { Ok(()) }
    }

    /// How many messages wait to be indexed, and their bytes.
    pub fn unindexed(&self) -> (usize, usize) {
        let unindexed = self.unindexed.read();
        (unindexed.len(), unindexed.bytes())
    }

    pub async fn inbox_state(&self, inbox: i64) -> sqlx::Result<InboxState> {
        if self.has_separate_index() {
            return Ok(self.inbox_states.read().get(&inbox).copied().unwrap_or_default());
        }
        let row: Option<(i64, i64)> =
            sqlx::query_as("SELECT last_number(inbox, floor), floor FROM head WHERE inbox = $1")
                .bind(inbox)
                .fetch_optional(self.index.read())
                .await?;
        Ok(row.map_or_else(InboxState::default, |(head, floor)| InboxState { head, floor }))
    }

    /// A new inbox on SQLite, whose first seq is the one after this.
    pub fn inbox_begins_at(&self, inbox: i64, floor: i64) {
        self.inbox_states.write().insert(inbox, InboxState { head: floor, floor });
    }

    /// Forgets inboxes that are in no table any more, on SQLite.
    pub fn inboxes_removed(&self, removed: &[i64]) {
        if removed.is_empty() || !self.has_separate_index() {
            return;
        }
        {
            let mut states = self.inbox_states.write();
            for inbox in removed {
                states.remove(inbox);
            }
        }
        let mut waiting = self.removed_inboxes.lock();
        // Beyond this they are found at the next start.
        if waiting.len() < MAX_REMOVED {
            waiting.extend(removed);
        }
    }

    /// Removes what the index has of inboxes that were removed; their messages leave it when they are old.
    pub async fn forget_removed_inboxes(&self) -> sqlx::Result<()> {
        let removed = std::mem::take(&mut *self.removed_inboxes.lock());
        if removed.is_empty() {
            return Ok(());
        }
        let query = sqlx::query("DELETE FROM head WHERE inbox IN (SELECT value FROM json_each($1))");
        let done = query.bind(bind::json(&removed)).execute(self.index.write_alone()).await;
        if done.is_err() {
            self.removed_inboxes.lock().extend(removed);
        }
        done.map(drop)
    }

    /// The last seq of an inbox, on SQLite.
    pub fn head(&self, inbox: i64) -> i64 {
        self.inbox_states.read().get(&inbox).map_or(0, |state| state.head)
    }
}
