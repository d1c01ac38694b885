//! The index over the log: letters are put into it behind their commit, and taken out before they are removed.

use super::letter::Letter;
use super::store::{FILE_AT_ONCE, Store, json, read};
use crate::kernel::Engine;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Store {
    /// Files the oldest letters of the tail; says whether there may be more.
    pub async fn file(&self) -> sqlx::Result<bool> {
        let letters = self.tail.read().oldest(FILE_AT_ONCE);
        let Some(last) = letters.last() else { return Ok(false) };
        let through = last.id;
        // Sorted, so that neighbours in the index are written together.
        let mut entries: Vec<(i64, i64, i64, u32, &str)> = Vec::with_capacity(letters.len());
        let mut seen: Vec<(i64, i64)> = Vec::with_capacity(letters.len());
        let mut heads: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for letter in &letters {
            seen.push((letter.key.number(), letter.id));
            for place in &letter.places {
                entries.push((place.inbox, place.seq, letter.id, place.copy, letter.from.as_str()));
                heads.entry(place.inbox).or_insert((place.seq, place.seq)).1 = place.seq;
            }
        }
        let heads: Vec<(i64, i64, i64)> =
            heads.into_iter().map(|(inbox, (first, last))| (inbox, last, first - 1)).collect();
        entries.sort_unstable();
        seen.sort_unstable();

        let mut tx = self.index.write().await?;
        sqlx::query(
            "INSERT INTO entry (inbox, seq, letter, copy, sender)
             SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each($1)
             WHERE true ON CONFLICT DO NOTHING",
        )
        .bind(json(&entries))
        .execute(&mut *tx)
        .await?;
        sqlx::query(
            "INSERT INTO seen (key, letter) SELECT value ->> 0, value ->> 1 FROM json_each($1)
             WHERE true ON CONFLICT (key) DO UPDATE SET letter = excluded.letter",
        )
        .bind(json(&seen))
        .execute(&mut *tx)
        .await?;
        sqlx::query(
            "INSERT INTO head (inbox, seq, floor) SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($1)
             WHERE true ON CONFLICT (inbox) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > head.seq",
        )
        .bind(json(&heads))
        .execute(&mut *tx)
        .await?;
        sqlx::query("UPDATE filed SET through = $1").bind(through).execute(&mut *tx).await?;
        tx.commit().await?;

        self.tail.write().filed(through);
        Ok(letters.len() == FILE_AT_ONCE)
    }

    /// Removes some letters older than this and raises the floors of their inboxes; says how many it removed.
    ///
    /// The index goes first: a crash in between leaves letters nobody finds, and they are the next ones to go.
    pub async fn purge(&self, older_than: i64, most: usize) -> sqlx::Result<usize> {
        let rows: Vec<(i64, String)> =
            sqlx::query_as("SELECT id, data FROM letter WHERE at < $1 ORDER BY id LIMIT $2")
                .bind(older_than)
                .bind(most as i64)
                .fetch_all(self.db.read())
                .await?;
        let Some((last, _)) = rows.last() else { return Ok(0) };
        let last = *last;
        let unfiled = self.tail.read().oldest(1).first().map(|letter| letter.id);
        if unfiled.is_some_and(|first| first <= last) {
            return Ok(0); // Filed first, removed later.
        }
        let letters: Vec<Arc<Letter>> =
            rows.iter().map(|(id, data)| read(*id, data)).collect::<sqlx::Result<_>>()?;
        let floors = self.unfile(&letters).await?;
        let mut tx = self.db.write().await?;
        for (inbox, floor) in &floors {
            sqlx::query("UPDATE inbox SET floor = $2 WHERE id = $1 AND floor < $2")
                .bind(*inbox)
                .bind(*floor)
                .execute(&mut *tx)
                .await?;
        }
        sqlx::query("DELETE FROM letter WHERE id <= $1 AND at < $2")
            .bind(last)
            .bind(older_than)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        let mut standings = self.standings.write();
        for (inbox, floor) in floors {
            let standing = standings.entry(inbox).or_default();
            standing.floor = standing.floor.max(floor);
        }
        Ok(letters.len())
    }

    /// Takes letters out of the index. A floor is where nothing at or below it is left.
    async fn unfile(&self, letters: &[Arc<Letter>]) -> sqlx::Result<BTreeMap<i64, i64>> {
        let mut tx = self.index.write().await?;
        let mut floors = BTreeMap::new();
        for letter in letters {
            match self.db.engine() {
                Engine::Sqlite => sqlx::query("DELETE FROM seen WHERE key = $1").bind(letter.key.number()),
                Engine::Postgres => sqlx::query("DELETE FROM seen WHERE key = $1").bind(letter.key.text()),
            }
            .execute(&mut *tx)
            .await?;
            for place in &letter.places {
                sqlx::query("DELETE FROM entry WHERE inbox = $1 AND seq = $2")
                    .bind(place.inbox)
                    .bind(place.seq)
                    .execute(&mut *tx)
                    .await?;
                floors.insert(place.inbox, place.seq);
            }
        }
        for (inbox, floor) in &mut floors {
            let next: Option<i64> = sqlx::query_scalar("SELECT MIN(seq) FROM entry WHERE inbox = $1")
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
