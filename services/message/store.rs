//! The log of letters and the index over it.
//!
//! On SQLite the index is a file of its own, written behind the log: scattered over inboxes as it is, it would cost a
//! commit several times what the letter costs. What is not filed yet is in memory, and after a crash it is read from
//! the log again. On PostgreSQL index and letter are one transaction, since several processes may write.

use super::filter::Filter;
use super::letter::{Key, Letter};
use super::sheet::array;
use super::tail::{Entry, Span, Tail};
use crate::kernel::{Aid, Db, Engine, World};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many letters are filed in one transaction.
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
    filter: Filter,
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
            let letters = self.log_after(through, FILE_AT_ONCE).await?;
            let Some(last) = letters.last() else { return Ok(()) };
            through = last.id;
            self.take_in(letters);
            self.file(Duration::ZERO).await?;
        }
    }

    /// The letters of the log after this one.
    pub async fn log_after(&self, id: i64, most: usize) -> sqlx::Result<Vec<Arc<Letter>>> {
        let rows: Vec<(i64, String)> =
            sqlx::query_as("SELECT id, data FROM letter WHERE id > $1 ORDER BY id LIMIT $2")
                .bind(id)
                .bind(most as i64)
                .fetch_all(self.db.read())
                .await?;
        rows.into_iter().map(|(id, data)| read(id, &data)).collect()
    }

    /// Makes committed letters visible, in the order of the log.
    pub fn take_in(&self, letters: Vec<Arc<Letter>>) {
        self.filter.add(letters.iter().map(|letter| letter.key));
        // Both locks, so that no number is seen before its letter can be read.
        let (mut tail, mut standings) = (self.tail.write(), self.standings.write());
        for letter in letters {
            for place in &letter.places {
                let standing = standings.entry(place.inbox).or_default();
                standing.head = standing.head.max(place.seq);
            }
            tail.push(letter);
        }
    }

    /// Tells the filter of everything that is stored; from then on it can be sure.
    pub async fn fill_filter(&self, now: i64) -> sqlx::Result<()> {
        if !self.files_behind() {
            return Ok(()); // Others store letters, too: the filter can never be sure, and is not asked.
        }
        let mut after = 0_i64;
        loop {
            let letters = self.log_after(after, 1000).await?;
            let Some(last) = letters.last() else { break };
            after = last.id;
            self.filter.add(letters.iter().map(|letter| letter.key));
        }
        self.filter.complete(now);
        Ok(())
    }

    pub fn turn_filter(&self, now: i64, period: i64) {
        self.filter.turn(now, period);
    }

    pub fn replace(&self, changed: &[Arc<Letter>]) {
        let mut tail = self.tail.write();
        changed.iter().for_each(|letter| tail.replace(letter));
    }

    pub fn was_written(&self) {
        self.written.store(true, Ordering::Relaxed);
    }

    /// Moves the journal into its file, if there is anything in it.
    pub async fn checkpoint(&self) -> sqlx::Result<()> {
        if self.written.swap(false, Ordering::Relaxed) { self.db.checkpoint().await } else { Ok(()) }
    }

    /// Letters that wait to be filed, and what they weigh.
    pub fn unfiled(&self) -> (usize, usize) {
        let tail = self.tail.read();
        (tail.len(), tail.bytes())
    }

    pub async fn standing(&self, inbox: i64) -> sqlx::Result<Standing> {
        if self.files_behind() {
            return Ok(self.standings.read().get(&inbox).copied().unwrap_or_default());
        }
        let row: Option<(i64, i64)> = sqlx::query_as("SELECT seq, floor FROM head WHERE inbox = $1")
            .bind(inbox)
            .fetch_optional(self.index.read())
            .await?;
        Ok(row.map_or_else(Standing::default, |(head, floor)| Standing { head, floor }))
    }

    /// The standing of an inbox as the committing task knows it.
    pub fn head(&self, inbox: i64) -> i64 {
        self.standings.read().get(&inbox).map_or(0, |standing| standing.head)
    }

    /// The first letters of a span, ascending.
    pub async fn first(&self, span: Span<'_>, most: usize) -> sqlx::Result<Vec<Entry>> {
        // The tail first: what is filed meanwhile is then found twice, never not at all.
        let (unfiled, before) = self.unfiled_part(span);
        let rows = self.filed(Span { before, ..span }, most, Order::First).await?;
        let mut entries = self.load(rows).await?;
        entries.extend(unfiled);
        entries.truncate(most);
        Ok(entries)
    }

    /// The last letters of a span, ascending.
    pub async fn last(&self, span: Span<'_>, most: usize) -> sqlx::Result<Vec<Entry>> {
        let (mut unfiled, before) = self.unfiled_part(span);
        if unfiled.len() >= most {
            return Ok(unfiled.split_off(unfiled.len() - most));
        }
        let rows = self.filed(Span { before, ..span }, most - unfiled.len(), Order::Last).await?;
        let mut entries = self.load(rows).await?;
        entries.reverse();
        entries.append(&mut unfiled);
        Ok(entries)
    }

    /// What the tail has of a span, and where the filed part of it ends.
    fn unfiled_part(&self, span: Span<'_>) -> (Vec<Entry>, i64) {
        let tail = self.tail.read();
        let before = tail.first(span.inbox).map_or(span.before, |first| first.min(span.before));
        (tail.entries(span), before)
    }

    async fn filed(&self, span: Span<'_>, most: usize, order: Order) -> sqlx::Result<Vec<(i64, i64)>> {
        let query = match (order, span.sender) {
            (Order::First, None) => sqlx::query_as(
                "SELECT seq, letter FROM entry WHERE inbox = $1 AND seq > $2 AND seq < $3 ORDER BY seq LIMIT $4",
            ),
            (Order::Last, None) => sqlx::query_as(
                "SELECT seq, letter FROM entry WHERE inbox = $1 AND seq > $2 AND seq < $3
                 ORDER BY seq DESC LIMIT $4",
            ),
            (Order::First, Some(_)) => sqlx::query_as(
                "SELECT seq, letter FROM entry WHERE inbox = $1 AND seq > $2 AND seq < $3 AND sender = $5
                 ORDER BY seq LIMIT $4",
            ),
            (Order::Last, Some(_)) => sqlx::query_as(
                "SELECT seq, letter FROM entry WHERE inbox = $1 AND seq > $2 AND seq < $3 AND sender = $5
                 ORDER BY seq DESC LIMIT $4",
            ),
        };
        let query = query.bind(span.inbox).bind(span.after).bind(span.before).bind(most as i64);
        match span.sender {
            Some(sender) => query.bind(sender).fetch_all(self.index.read()).await,
            None => query.fetch_all(self.index.read()).await,
        }
    }

    pub async fn letters(&self, ids: Vec<i64>) -> sqlx::Result<Vec<Arc<Letter>>> {
        let entries = self.load(ids.into_iter().map(|id| (0, id)).collect()).await?;
        Ok(entries.into_iter().map(|entry| entry.letter).collect())
    }

    /// The letters of filed entries, in their order; one that was removed meanwhile is left out.
    async fn load(&self, rows: Vec<(i64, i64)>) -> sqlx::Result<Vec<Entry>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = rows.iter().map(|(_, letter)| *letter).collect();
        let query = match self.db.engine() {
            Engine::Sqlite => {
                sqlx::query_as("SELECT id, data FROM letter WHERE id IN (SELECT value FROM json_each($1))")
                    .bind(json(&ids))
            }
            Engine::Postgres => {
                sqlx::query_as("SELECT id, data FROM letter WHERE id = ANY(CAST($1 AS BIGINT[]))")
                    .bind(array(&ids))
            }
        };
        let found: Vec<(i64, String)> = query.fetch_all(self.db.read()).await?;
        let mut letters = HashMap::with_capacity(found.len());
        for (id, data) in found {
            letters.insert(id, read(id, &data)?);
        }
        let entry = |(seq, id): (i64, i64)| Some(Entry { seq, letter: letters.get(&id)?.clone() });
        Ok(rows.into_iter().filter_map(entry).collect())
    }

    /// The last number of each sender in an inbox.
    pub async fn senders(&self, inbox: i64) -> sqlx::Result<BTreeMap<String, i64>> {
        let unfiled = self.tail.read().senders(inbox);
        let query = match self.db.engine() {
            Engine::Sqlite => sqlx::query_as(
                "SELECT s.aid, l.seq
                 FROM (SELECT sender, MAX(seq) AS seq FROM place WHERE inbox = $1 GROUP BY sender) AS l
                 JOIN sender AS s ON s.id = l.sender",
            ),
            Engine::Postgres => {
                sqlx::query_as("SELECT sender, MAX(seq) FROM entry WHERE inbox = $1 GROUP BY sender")
            }
        };
        let filed: Vec<(String, i64)> = query.bind(inbox).fetch_all(self.index.read()).await?;
        let mut senders: BTreeMap<String, i64> = filed.into_iter().collect();
        senders.extend(unfiled);
        Ok(senders)
    }

    /// The senders of the numbers after `after` up to and including `through`.
    pub async fn senders_between(&self, inbox: i64, after: i64, through: i64) -> sqlx::Result<Vec<String>> {
        let unfiled = self.tail.read().entries(Span { inbox, after, before: through + 1, sender: None });
        let mut senders: Vec<String> = sqlx::query_scalar(
            "SELECT DISTINCT sender FROM entry WHERE inbox = $1 AND seq > $2 AND seq <= $3",
        )
        .bind(inbox)
        .bind(after)
        .bind(through)
        .fetch_all(self.index.read())
        .await?;
        senders.extend(unfiled.iter().map(|entry| entry.letter.from.to_string()));
        senders.sort_unstable();
        senders.dedup();
        Ok(senders)
    }

    /// The letters among these that were stored before, by their keys.
    pub async fn find_all(&self, keys: &[Key]) -> sqlx::Result<HashMap<Key, Arc<Letter>>> {
        // The tail first, as above.
        let mut found: HashMap<Key, Arc<Letter>> = {
            let tail = self.tail.read();
            keys.iter().filter_map(|key| Some((*key, tail.find(key)?))).collect()
        };
        let others: Vec<Key> = keys
            .iter()
            .filter(|key| !found.contains_key(*key) && (!self.files_behind() || self.filter.may_hold(**key)))
            .copied()
            .collect();
        if others.is_empty() {
            return Ok(found);
        }
        let (query, wanted) = match self.db.engine() {
            Engine::Sqlite => (
                sqlx::query_as(
                    "SELECT letter, letter FROM seen WHERE key IN (SELECT value FROM json_each($1))",
                ),
                json(&others.iter().map(Key::number).collect::<Vec<_>>()),
            ),
            Engine::Postgres => (
                sqlx::query_as(
                    "SELECT letter, letter FROM seen
                     WHERE key = ANY(string_to_array($1, ','))",
                ),
                others.iter().map(Key::text).collect::<Vec<_>>().join(","),
            ),
        };
        let rows: Vec<(i64, i64)> = query.bind(wanted).fetch_all(self.index.read()).await?;
        for Entry { letter, .. } in self.load(rows).await? {
            if others.contains(&letter.key) {
                found.insert(letter.key, letter);
            }
        }
        Ok(found)
    }

    pub async fn find(&self, key: &Key) -> sqlx::Result<Option<Arc<Letter>>> {
        Ok(self.find_all(std::slice::from_ref(key)).await?.remove(key))
    }
}

#[derive(Clone, Copy)]
enum Order {
    First,
    Last,
}

pub(super) fn read(id: i64, data: &str) -> sqlx::Result<Arc<Letter>> {
    let mut letter: Letter =
        serde_json::from_str(data).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    letter.id = id;
    letter.key = Key::new(&letter.from, &letter.message_id);
    Ok(Arc::new(letter))
}

/// What goes into a statement that takes many rows at once.
pub(super) fn json(rows: &impl serde::Serialize) -> String {
    serde_json::to_string(rows).unwrap_or_default()
}
