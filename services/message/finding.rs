//! Finding messages: by where they lie in an inbox, and by who sent them and what they called them.

use super::sheet::array;
use super::store::{Store, json, read};
use super::stored_message::{Key, StoredMessage};
use super::tail::{Entry, Span};
use crate::kernel::Engine;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

impl Store {
    /// The first messages of a span, ascending.
    pub async fn first(&self, span: Span<'_>, most: usize) -> sqlx::Result<Vec<Entry>> {
        // The tail first: what is filed meanwhile is then found twice, never not at all.
        let (unfiled, before) = self.unfiled_part(span);
        let rows = self.filed(Span { before, ..span }, most, Order::First).await?;
        let mut entries = self.load(rows).await?;
        entries.extend(unfiled);
        entries.truncate(most);
        Ok(entries)
    }

    /// The last messages of a span, ascending.
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
        let query = match (order, span.sender, self.db.engine()) {
            (Order::First, None, _) => sqlx::query_as(
                "SELECT seq, letter FROM entry WHERE inbox = $1 AND seq > $2 AND seq < $3 ORDER BY seq LIMIT $4",
            ),
            (Order::Last, None, _) => sqlx::query_as(
                "SELECT seq, letter FROM entry WHERE inbox = $1 AND seq > $2 AND seq < $3
                 ORDER BY seq DESC LIMIT $4",
            ),
            (Order::First, Some(_), Engine::Sqlite) => sqlx::query_as(
                "SELECT seq, letter FROM entry WHERE inbox = $1 AND seq > $2 AND seq < $3 AND sender = $5
                 ORDER BY seq LIMIT $4",
            ),
            (Order::Last, Some(_), Engine::Sqlite) => sqlx::query_as(
                "SELECT seq, letter FROM entry WHERE inbox = $1 AND seq > $2 AND seq < $3 AND sender = $5
                 ORDER BY seq DESC LIMIT $4",
            ),
            (Order::First, Some(_), Engine::Postgres) => {
                sqlx::query_as("SELECT seq, letter FROM of_sender($1, $2, $3, $5) ORDER BY seq LIMIT $4")
            }
            (Order::Last, Some(_), Engine::Postgres) => {
                sqlx::query_as("SELECT seq, letter FROM of_sender($1, $2, $3, $5) ORDER BY seq DESC LIMIT $4")
            }
        };
        let query = query.bind(span.inbox).bind(span.after).bind(span.before).bind(most as i64);
        match span.sender {
            Some(sender) => query.bind(sender).fetch_all(self.index.read()).await,
            None => query.fetch_all(self.index.read()).await,
        }
    }

    pub async fn messages(&self, ids: Vec<i64>) -> sqlx::Result<Vec<Arc<StoredMessage>>> {
        let entries = self.load(ids.into_iter().map(|id| (0, id)).collect()).await?;
        Ok(entries.into_iter().map(|entry| entry.message).collect())
    }

    /// The messages of filed entries, in their order; one that was removed meanwhile is left out.
    async fn load(&self, rows: Vec<(i64, i64)>) -> sqlx::Result<Vec<Entry>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = rows.iter().map(|(_, message)| *message).collect();
        let query = match self.db.engine() {
            Engine::Sqlite => {
                sqlx::query_as("SELECT id, data FROM letter WHERE id IN (SELECT value FROM json_each($1))")
                    .bind(json(&ids))
            }
            Engine::Postgres => {
                sqlx::query_as("SELECT id, data FROM letter WHERE id = ANY(CAST($1 AS BIGINT[]))")
                    .bind(array(ids))
            }
        };
        let found: Vec<(i64, String)> = query.fetch_all(self.db.read()).await?;
        let mut messages = HashMap::with_capacity(found.len());
        for (id, data) in found {
            messages.insert(id, read(id, &data)?);
        }
        let entry = |(seq, id): (i64, i64)| Some(Entry { seq, message: messages.get(&id)?.clone() });
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
            Engine::Postgres => sqlx::query_as("SELECT sender, seq FROM senders_of($1)"),
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
        senders.extend(unfiled.iter().map(|entry| entry.message.from.to_string()));
        senders.sort_unstable();
        senders.dedup();
        Ok(senders)
    }

    /// The messages among these that were stored before, by their keys.
    pub async fn find_all(&self, keys: &[Key]) -> sqlx::Result<HashMap<Key, Arc<StoredMessage>>> {
        // The tail first, as above.
        let mut found: HashMap<Key, Arc<StoredMessage>> = {
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
                    "SELECT id, id FROM letter WHERE key = ANY(CAST(string_to_array($1, ',') AS UUID[]))",
                ),
                others.iter().map(Key::text).collect::<Vec<_>>().join(","),
            ),
        };
        let rows: Vec<(i64, i64)> = query.bind(wanted).fetch_all(self.index.read()).await?;
        for Entry { message, .. } in self.load(rows).await? {
            if others.contains(&message.key) {
                found.insert(message.key, message);
            }
        }
        Ok(found)
    }

    pub async fn find(&self, key: &Key) -> sqlx::Result<Option<Arc<StoredMessage>>> {
        Ok(self.find_all(std::slice::from_ref(key)).await?.remove(key))
    }
}

#[derive(Clone, Copy)]
enum Order {
    First,
    Last,
}
