//! The index over the log: messages are added after their commit, and removed before they leave the log.

use crate::store::bind::json;
use crate::store::stored_message::StoredMessage;
use crate::store::{INDEX_BATCH, Store};
use kernel::Aid;
use sqlx::{Any, Transaction};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// How many rows go into one statement: a core is not busy with it for longer than a millisecond or so.
const CHUNK: usize = 256;

impl Store {
    /// Indexes the oldest messages, with a pause after every few so that senders need not wait for a core; says whether
    /// there may be more.
    ///
    /// A message is visible in memory until the index has it: only after this transaction is it removed there, and after a
    /// crash before that the log is read again from where `filed` says.
    pub async fn index_oldest(&self, pause: Duration) -> sqlx::Result<bool> {
        let messages = self.unindexed.read().oldest(INDEX_BATCH);
        let Some(last) = messages.last() else { return Ok(false) };
        let mut tx = self.index.write().await?;
        let senders = self.assign_sender_ids(&mut tx, &messages).await?;
        let (mut entries, mut seen) =
            (Vec::with_capacity(messages.len()), Vec::with_capacity(messages.len()));
        let mut heads: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for message in &messages {
            seen.push([message.key.number(), message.id]);
            for entry in &message.entries {
                let sender = senders.get(&message.from).copied().unwrap_or_default();
                entries.push([entry.inbox, entry.seq, message.id, sender]);
                heads.entry(entry.inbox).or_insert((entry.seq, entry.seq)).1 = entry.seq;
            }
        }
        // Sorted, so that rows that are next to each other in the index are written together.
        entries.sort_unstable();
        seen.sort_unstable();
        for entries in entries.chunks(CHUNK) {
            write_entries(&mut tx, entries).await?;
            wait(pause).await;
        }
        for seen in seen.chunks(CHUNK) {
            write_seen(&mut tx, seen).await?;
            wait(pause).await;
        }
        let heads: Vec<(i64, i64, i64)> =
            heads.into_iter().map(|(inbox, (first, last))| (inbox, last, first - 1)).collect();
        sqlx::query(
            "INSERT INTO head (inbox, seq, floor) SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($1)
             WHERE true ON CONFLICT (inbox) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > head.seq;
             UPDATE filed SET through = $2",
        )
        .bind(json(&heads))
        .bind(last.id)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;

        self.cache_sender_ids(senders);
        // A few at a time: a commit waits for this lock.
        while self.unindexed.write().remove_indexed(last.id, CHUNK) {
            tokio::task::yield_now().await;
        }
        Ok(messages.len() == INDEX_BATCH)
    }

    /// The ids that the senders of these messages have in the index.
    async fn assign_sender_ids(
        &self,
        tx: &mut Transaction<'static, Any>,
        messages: &[Arc<StoredMessage>],
    ) -> sqlx::Result<HashMap<Aid, i64>> {
        let mut senders: HashMap<Aid, i64> = HashMap::new();
        let mut new: BTreeSet<&Aid> = BTreeSet::new();
        {
            let mut known = self.sender_ids.lock();
            for message in messages {
                match known.get(&message.from) {
                    _ if senders.contains_key(&message.from) => {}
                    Some(id) => drop(senders.insert(message.from.clone(), *id)),
                    None => drop(new.insert(&message.from)),
                }
            }
        }
        if new.is_empty() {
            return Ok(senders);
        }
        sqlx::query(
            "INSERT INTO sender (aid) SELECT value FROM json_each($1) WHERE true ON CONFLICT DO NOTHING",
        )
        .bind(json(&new))
        .execute(&mut **tx)
        .await?;
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT aid, id FROM sender WHERE aid IN (SELECT value FROM json_each($1))")
                .bind(json(&new))
                .fetch_all(&mut **tx)
                .await?;
        senders.extend(rows.into_iter().filter_map(|(aid, id)| Some((Aid::parse(&aid).ok()?, id))));
        Ok(senders)
    }

    /// Only after the commit: if it fails, the ids are given to others.
    fn cache_sender_ids(&self, senders: HashMap<Aid, i64>) {
        let mut known = self.sender_ids.lock();
        for (aid, id) in senders {
            known.insert(aid, id);
        }
    }

    /// Removes messages from the index, and gives the new floors: nothing at or below a floor is left in its inbox.
    pub(crate) async fn remove_from_index(
        &self,
        messages: &[Arc<StoredMessage>],
    ) -> sqlx::Result<BTreeMap<i64, i64>> {
        let mut tx = self.index.write().await?;
        let mut floors = BTreeMap::new();
        for message in messages {
            sqlx::query("DELETE FROM seen WHERE key = $1")
                .bind(message.key.number())
                .execute(&mut *tx)
                .await?;
            for entry in &message.entries {
                sqlx::query("DELETE FROM place WHERE inbox = $1 AND seq = $2")
                    .bind(entry.inbox)
                    .bind(entry.seq)
                    .execute(&mut *tx)
                    .await?;
                floors.insert(entry.inbox, entry.seq);
            }
        }
        for (inbox, floor) in &mut floors {
            let next: Option<i64> = sqlx::query_scalar("SELECT MIN(seq) FROM place WHERE inbox = $1")
                .bind(*inbox)
                .fetch_one(&mut *tx)
                .await?;
            *floor = next.map_or(*floor, |next| next - 1);
            sqlx::query("UPDATE head SET floor = $2 WHERE inbox = $1 AND floor < $2")
                .bind(*inbox)
                .bind(*floor)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(floors)
    }
}

/// None at the start, when no sender waits for a core yet.
async fn wait(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}

/// Ignored rather than refused if it already exists: for a statement that cannot fail, SQLite saves no pages to go back to.
async fn write_entries(tx: &mut Transaction<'static, Any>, entries: &[[i64; 4]]) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT OR IGNORE INTO place (inbox, seq, letter, sender)
         SELECT CAST(substr($1, 80 * value + 1, 20) AS INTEGER), CAST(substr($1, 80 * value + 21, 20) AS INTEGER),
                CAST(substr($1, 80 * value + 41, 20) AS INTEGER), CAST(substr($1, 80 * value + 61, 20) AS INTEGER)
         FROM json_each($2)",
    )
    .bind(columns(entries))
    .bind(json(&(0..entries.len()).collect::<Vec<_>>()))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn write_seen(tx: &mut Transaction<'static, Any>, seen: &[[i64; 2]]) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO seen (key, letter)
         SELECT CAST(substr($1, 40 * value + 1, 20) AS INTEGER), CAST(substr($1, 40 * value + 21, 20) AS INTEGER)
         FROM json_each($2) WHERE true ON CONFLICT (key) DO UPDATE SET letter = excluded.letter",
    )
    .bind(columns(seen))
    .bind(json(&(0..seen.len()).collect::<Vec<_>>()))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Each number in twenty characters, so that SQLite finds them by counting: rows of JSON cost it more than the index.
fn columns<const N: usize>(rows: &[[i64; N]]) -> Vec<u8> {
    let mut text = Vec::with_capacity(20 * N * rows.len());
    for number in rows.as_flattened() {
        text.extend_from_slice(&column(*number));
    }
    text
}

/// By hand: the formatter of the standard library pads character by character.
fn column(number: i64) -> [u8; 20] {
    let (mut text, mut start, mut left) = ([b' '; 20], 20, number.unsigned_abs());
    while left > 0 || start == 20 {
        start -= 1;
        text[start] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    if number < 0 {
        text[start - 1] = b'-';
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_twenty_characters() {
        for number in [0, 7, -7, 1_234_567_890, i64::MAX, i64::MIN, -i64::MAX] {
            assert_eq!(String::from_utf8_lossy(&column(number)), format!("{number:20}"));
        }
        assert_eq!(columns(&[[1, -2], [3, 4]]).len(), 80);
    }
}
