//! Reading messages: by their seqs in an inbox, and by their sender and message id.

use super::Store;
use super::bind::{array, json};
use super::stored_message::{MessageKey, StoredMessage};
use kernel::{Engine, trace};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A message and the seq it has in an inbox.
#[derive(Clone, Debug)]
pub(crate) struct InboxMessage {
    pub seq: i64,
    pub message: Arc<StoredMessage>,
}

/// Which seqs of an inbox are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeqRange<'a> {
    pub inbox: i64,
    /// Greater than this…
    pub after: i64,
    /// … and less than this.
    pub before: i64,
    /// Only those of this sender.
    pub sender: Option<&'a str>,
}

#[derive(Clone, Copy)]
enum RangeEnd {
    First,
    Last,
}

impl SeqRange<'_> {
    pub fn contains(&self, seq: i64, message: &StoredMessage) -> bool {
        self.after < seq
            && seq < self.before
            && self.sender.is_none_or(|sender| message.from.as_str() == sender)
    }
}

impl Store {
    /// The first messages of a range, ascending.
    pub async fn first(&self, range: SeqRange<'_>, most: usize) -> sqlx::Result<Vec<InboxMessage>> {
        let _step = trace::step("store", "read");
        // Memory before the index: a message that is indexed in between is then found twice, never not at all. `before`
        // keeps it from being shown twice.
        let (unindexed, before) = self.unindexed_in(range);
        let rows = self.indexed_in(SeqRange { before, ..range }, most, RangeEnd::First).await?;
        let mut messages = self.load(rows).await?;
        messages.extend(unindexed);
        messages.truncate(most);
        Ok(messages)
    }

    /// The last messages of a range, ascending.
    pub async fn last(&self, range: SeqRange<'_>, most: usize) -> sqlx::Result<Vec<InboxMessage>> {
        let _step = trace::step("store", "read");
        let (mut unindexed, before) = self.unindexed_in(range);
        if unindexed.len() >= most {
            return Ok(unindexed.split_off(unindexed.len() - most));
        }
        let most = most - unindexed.len();
        let rows = self.indexed_in(SeqRange { before, ..range }, most, RangeEnd::Last).await?;
        let mut messages = self.load(rows).await?;
        messages.reverse();
        messages.append(&mut unindexed);
        Ok(messages)
    }

    /// Whether an inbox has a message of this sender.
    pub async fn has_sender(&self, inbox: i64, sender: &str) -> sqlx::Result<bool> {
        let range = SeqRange { inbox, after: 0, before: i64::MAX, sender: Some(sender) };
        let (unindexed, before) = self.unindexed_in(range);
        let indexed = self.indexed_in(SeqRange { before, ..range }, 1, RangeEnd::Last);
        Ok(!unindexed.is_empty() || !indexed.await?.is_empty())
    }

    /// What is not indexed yet of a range, and the seq that the indexed rest of it ends before.
    fn unindexed_in(&self, range: SeqRange<'_>) -> (Vec<InboxMessage>, i64) {
        let unindexed = self.unindexed.read();
        let before = unindexed.first(range.inbox).map_or(range.before, |first| first.min(range.before));
        (unindexed.messages_in(range), before)
    }

    /// Seqs and ids of the log.
    async fn indexed_in(
        &self,
        range: SeqRange<'_>,
        most: usize,
        end: RangeEnd,
    ) -> sqlx::Result<Vec<(i64, i64)>> {
        let query = match (end, range.sender, self.db.engine()) {
            (RangeEnd::First, None, _) => sqlx::query_as(
                "SELECT seq, letter FROM entry WHERE inbox = $1 AND seq > $2 AND seq < $3 ORDER BY seq LIMIT $4",
            ),
            (RangeEnd::Last, None, _) => sqlx::query_as(
                "SELECT seq, letter FROM entry WHERE inbox = $1 AND seq > $2 AND seq < $3
                 ORDER BY seq DESC LIMIT $4",
            ),
            (RangeEnd::First, Some(_), Engine::Sqlite) => sqlx::query_as(
                "SELECT seq, letter FROM entry WHERE inbox = $1 AND seq > $2 AND seq < $3 AND sender = $5
                 ORDER BY seq LIMIT $4",
            ),
            (RangeEnd::Last, Some(_), Engine::Sqlite) => sqlx::query_as(
                "SELECT seq, letter FROM entry WHERE inbox = $1 AND seq > $2 AND seq < $3 AND sender = $5
                 ORDER BY seq DESC LIMIT $4",
            ),
            (RangeEnd::First, Some(_), Engine::Postgres) => {
                sqlx::query_as("SELECT seq, letter FROM of_sender($1, $2, $3, $5) ORDER BY seq LIMIT $4")
            }
            (RangeEnd::Last, Some(_), Engine::Postgres) => {
                sqlx::query_as("SELECT seq, letter FROM of_sender($1, $2, $3, $5) ORDER BY seq DESC LIMIT $4")
            }
        };
        let query = query.bind(range.inbox).bind(range.after).bind(range.before).bind(most as i64);
        match range.sender {
            Some(sender) => query.bind(sender).fetch_all(self.index.read()).await,
            None => query.fetch_all(self.index.read()).await,
        }
    }

    pub async fn messages(&self, ids: Vec<i64>) -> sqlx::Result<Vec<Arc<StoredMessage>>> {
        let messages = self.load(ids.into_iter().map(|id| (0, id)).collect()).await?;
        Ok(messages.into_iter().map(|found| found.message).collect())
    }

    /// The messages with these seqs and ids, in this order; one that was removed meanwhile is left out.
    async fn load(&self, rows: Vec<(i64, i64)>) -> sqlx::Result<Vec<InboxMessage>> {
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
            messages.insert(id, StoredMessage::read(id, &data)?);
        }
        let found = |(seq, id): (i64, i64)| Some(InboxMessage { seq, message: messages.get(&id)?.clone() });
        Ok(rows.into_iter().filter_map(found).collect())
    }

    /// The last seq of each sender in an inbox.
    pub async fn senders(&self, inbox: i64) -> sqlx::Result<BTreeMap<String, i64>> {
        let unindexed = self.unindexed.read().senders(inbox);
        let query = match self.db.engine() {
            Engine::Sqlite => sqlx::query_as(
                "SELECT s.aid, l.seq
                 FROM (SELECT sender, MAX(seq) AS seq FROM place WHERE inbox = $1 GROUP BY sender) AS l
                 JOIN sender AS s ON s.id = l.sender",
            ),
            Engine::Postgres => sqlx::query_as("SELECT sender, seq FROM senders_of($1)"),
        };
        let indexed: Vec<(String, i64)> = query.bind(inbox).fetch_all(self.index.read()).await?;
        let mut senders: BTreeMap<String, i64> = indexed.into_iter().collect();
        senders.extend(unindexed);
        Ok(senders)
    }

    /// The senders of the seqs after `after` up to and including `through`.
    pub async fn senders_between(&self, inbox: i64, after: i64, through: i64) -> sqlx::Result<Vec<String>> {
        let range = SeqRange { inbox, after, before: through + 1, sender: None };
        let unindexed = self.unindexed.read().messages_in(range);
        let mut senders: Vec<String> = sqlx::query_scalar(
            "SELECT DISTINCT sender FROM entry WHERE inbox = $1 AND seq > $2 AND seq <= $3",
        )
        .bind(inbox)
        .bind(after)
        .bind(through)
        .fetch_all(self.index.read())
        .await?;
        senders.extend(unindexed.iter().map(|found| found.message.from.to_string()));
        senders.sort_unstable();
        senders.dedup();
        Ok(senders)
    }

    /// The messages among these that were stored before, by their keys.
    pub async fn find_all(
        &self,
        keys: &[MessageKey],
    ) -> sqlx::Result<HashMap<MessageKey, Arc<StoredMessage>>> {
        // Memory before the index, as in `first`.
        let mut found: HashMap<MessageKey, Arc<StoredMessage>> = {
            let unindexed = self.unindexed.read();
            keys.iter().filter_map(|key| Some((*key, unindexed.find(key)?))).collect()
        };
        let others: Vec<MessageKey> = keys
            .iter()
            .filter(|key| {
                !found.contains_key(*key) && (!self.has_separate_index() || self.seen.may_contain(**key))
            })
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
                json(&others.iter().map(MessageKey::number).collect::<Vec<_>>()),
            ),
            Engine::Postgres => (
                sqlx::query_as(
                    "SELECT id, id FROM letter WHERE key = ANY(CAST(string_to_array($1, ',') AS UUID[]))",
                ),
                others.iter().map(MessageKey::text).collect::<Vec<_>>().join(","),
            ),
        };
        let rows: Vec<(i64, i64)> = query.bind(wanted).fetch_all(self.index.read()).await?;
        for InboxMessage { message, .. } in self.load(rows).await? {
            if others.contains(&message.key) {
                found.insert(message.key, message);
            }
        }
        Ok(found)
    }

    pub async fn find(&self, key: &MessageKey) -> sqlx::Result<Option<Arc<StoredMessage>>> {
        Ok(self.find_all(std::slice::from_ref(key)).await?.remove(key))
    }
}
