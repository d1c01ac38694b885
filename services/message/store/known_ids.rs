//! Which messages an agent got, by the hash of their sender and id. What they say is not read: whoever asks about many
//! messages that do not exist costs no more than the rows of an index.

use super::Store;
use super::bind::json;
use super::lookup::SeqRange;
use super::stored_message::MessageKey;
use kernel::Engine;
use std::collections::HashMap;

/// How many keys go into one statement.
const CHUNK: usize = 1000;

impl Store {
    /// The newest messages of an inbox: the id in the log and the sender of each.
    pub async fn newest_entries(&self, inbox: i64, most: usize) -> sqlx::Result<Vec<(i64, String)>> {
        let range = SeqRange { inbox, after: 0, before: i64::MAX, sender: None };
        // Memory before the index: a message that is indexed in between is then found twice.
        let unindexed = self.unindexed.read().messages_in(range);
        let newest = unindexed.iter().rev().take(most);
        let mut entries: Vec<(i64, String)> =
            newest.map(|found| (found.message.id, found.message.from.to_string())).collect();
        let indexed: Vec<(i64, Option<String>)> =
            sqlx::query_as("SELECT letter, sender FROM entry WHERE inbox = $1 ORDER BY seq DESC LIMIT $2")
                .bind(inbox)
                .bind((most - entries.len()) as i64)
                .fetch_all(self.index.read())
                .await?;
        entries.extend(indexed.into_iter().map(|(id, sender)| (id, sender.unwrap_or_default())));
        Ok(entries)
    }

    /// The ids that messages with these keys have in the log. On SQLite a key is compared by the first half of its hash only.
    pub async fn ids_in_log(&self, keys: &[MessageKey]) -> sqlx::Result<HashMap<MessageKey, i64>> {
        let mut found: HashMap<MessageKey, i64> = {
            let unindexed = self.unindexed.read();
            keys.iter().filter_map(|key| Some((*key, unindexed.find(key)?.id))).collect()
        };
        let others: Vec<MessageKey> = keys
            .iter()
            .filter(|key| {
                !found.contains_key(*key) && (!self.has_separate_index() || self.seen.may_contain(**key))
            })
            .copied()
            .collect();
        for keys in others.chunks(CHUNK) {
            match self.db.engine() {
                Engine::Sqlite => found.extend(self.ids_by_number(keys).await?),
                Engine::Postgres => found.extend(self.ids_by_text(keys).await?),
            }
        }
        Ok(found)
    }

    async fn ids_by_number(&self, keys: &[MessageKey]) -> sqlx::Result<Vec<(MessageKey, i64)>> {
        let numbers: HashMap<i64, MessageKey> = keys.iter().map(|key| (key.number(), *key)).collect();
        let wanted: Vec<i64> = numbers.keys().copied().collect();
        let rows: Vec<(i64, i64)> =
            sqlx::query_as("SELECT key, letter FROM seen WHERE key IN (SELECT value FROM json_each($1))")
                .bind(json(&wanted))
                .fetch_all(self.index.read())
                .await?;
        Ok(rows.into_iter().filter_map(|(number, id)| Some((*numbers.get(&number)?, id))).collect())
    }

    async fn ids_by_text(&self, keys: &[MessageKey]) -> sqlx::Result<Vec<(MessageKey, i64)>> {
        let texts: HashMap<String, MessageKey> = keys.iter().map(|key| (key.text(), *key)).collect();
        let wanted: Vec<&str> = texts.keys().map(String::as_str).collect();
        let rows: Vec<(String, i64)> = sqlx::query_as(
            "SELECT replace(CAST(key AS TEXT), '-', ''), id FROM letter
             WHERE key = ANY(CAST(string_to_array($1, ',') AS UUID[]))",
        )
        .bind(wanted.join(","))
        .fetch_all(self.index.read())
        .await?;
        Ok(rows.into_iter().filter_map(|(text, id)| Some((*texts.get(&text)?, id))).collect())
    }
}
