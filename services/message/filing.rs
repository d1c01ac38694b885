//! The index over the log, on SQLite: messages are put into it behind their commit, and taken out before they are removed.

use super::store::{FILE_AT_ONCE, Store, json};
use super::stored_message::StoredMessage;
use crate::kernel::Aid;
use sqlx::{Any, Transaction};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// How many messages go into one statement: a core is not held for longer than a millisecond or so.
const SLICE: usize = 256;
/// How many senders are known by heart before all are forgotten and asked for again.
const MOST_SENDERS: usize = 100_000;

impl Store {
    /// Files the oldest messages of the tail, with a pause after every few so that senders need not wait for a core;
    /// says whether there may be more.
    pub async fn file(&self, pause: Duration) -> sqlx::Result<bool> {
        let messages = self.tail.read().oldest(FILE_AT_ONCE);
        let Some(last) = messages.last() else { return Ok(false) };
        let mut tx = self.index.write().await?;
        let senders = self.number_senders(&mut tx, &messages).await?;
        let (mut places, mut seen) = (Vec::with_capacity(messages.len()), Vec::with_capacity(messages.len()));
        let mut heads: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for message in &messages {
            seen.push([message.key.number(), message.id]);
            for place in &message.places {
                let sender = senders.get(&message.from).copied().unwrap_or_default();
                places.push([place.inbox, place.seq, message.id, sender]);
                heads.entry(place.inbox).or_insert((place.seq, place.seq)).1 = place.seq;
            }
        }
        // Sorted, so that neighbours in the index are written together.
        places.sort_unstable();
        seen.sort_unstable();
        for places in places.chunks(SLICE) {
            write_places(&mut tx, places).await?;
            rest(pause).await;
        }
        for seen in seen.chunks(SLICE) {
            write_seen(&mut tx, seen).await?;
            rest(pause).await;
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

        self.know_senders(senders);
        // A few at a time: who commits waits for this lock.
        while self.tail.write().filed(last.id, SLICE) {
            tokio::task::yield_now().await;
        }
        Ok(messages.len() == FILE_AT_ONCE)
    }

    /// The numbers the index has for the senders of these messages.
    async fn number_senders(
        &self,
        tx: &mut Transaction<'static, Any>,
        messages: &[Arc<StoredMessage>],
    ) -> sqlx::Result<HashMap<Aid, i64>> {
        let mut senders: HashMap<Aid, i64> = HashMap::new();
        let mut new: BTreeSet<&Aid> = BTreeSet::new();
        {
            let known = self.senders_known.lock();
            for message in messages {
                match known.get(&message.from) {
                    _ if senders.contains_key(&message.from) => {}
                    Some(number) => drop(senders.insert(message.from.clone(), *number)),
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
        senders.extend(rows.into_iter().filter_map(|(aid, number)| Some((Aid::parse(&aid).ok()?, number))));
        Ok(senders)
    }

    /// Only after the commit: before it, the numbers may be given to others yet.
    fn know_senders(&self, senders: HashMap<Aid, i64>) {
        let mut known = self.senders_known.lock();
        if known.len() >= MOST_SENDERS {
            known.clear();
        }
        known.extend(senders);
    }

    /// Takes messages out of the index. A floor is where nothing at or below it is left.
    pub(super) async fn unfile(&self, messages: &[Arc<StoredMessage>]) -> sqlx::Result<BTreeMap<i64, i64>> {
        let mut tx = self.index.write().await?;
        let mut floors = BTreeMap::new();
        for message in messages {
            sqlx::query("DELETE FROM seen WHERE key = $1")
                .bind(message.key.number())
                .execute(&mut *tx)
                .await?;
            for place in &message.places {
                sqlx::query("DELETE FROM place WHERE inbox = $1 AND seq = $2")
                    .bind(place.inbox)
                    .bind(place.seq)
                    .execute(&mut *tx)
                    .await?;
                floors.insert(place.inbox, place.seq);
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

/// At the start nobody waits for a core yet.
async fn rest(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}

/// Ignored rather than refused if it is there already: of what cannot fail, SQLite keeps no pages to go back to.
async fn write_places(tx: &mut Transaction<'static, Any>, places: &[[i64; 4]]) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT OR IGNORE INTO place (inbox, seq, letter, sender)
         SELECT CAST(substr($1, 80 * value + 1, 20) AS INTEGER), CAST(substr($1, 80 * value + 21, 20) AS INTEGER),
                CAST(substr($1, 80 * value + 41, 20) AS INTEGER), CAST(substr($1, 80 * value + 61, 20) AS INTEGER)
         FROM json_each($2)",
    )
    .bind(columns(places))
    .bind(json(&(0..places.len()).collect::<Vec<_>>()))
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

/// By hand: the formatter of the library pads character by character.
fn column(number: i64) -> [u8; 20] {
    let (mut text, mut at, mut left) = ([b' '; 20], 20, number.unsigned_abs());
    while left > 0 || at == 20 {
        at -= 1;
        text[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    if number < 0 {
        text[at - 1] = b'-';
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
