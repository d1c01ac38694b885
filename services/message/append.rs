//! The statements of a commit: one for the letters and one for the cursors, whatever their number.

use super::letter::Letter;
use super::store::json;
use super::writer::{Commit, Writer};
use crate::kernel::Engine;
use sqlx::any::AnyArguments;
use sqlx::{Any, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Writer {
    /// On SQLite: letters alone, which is what nearly every commit is, are one statement and need no other.
    pub(super) async fn write_log(&self, commit: &mut Commit) -> sqlx::Result<()> {
        let db = self.store.db();
        if commit.changed.is_empty() && commit.cursors.is_empty() {
            if commit.letters.is_empty() {
                return Ok(());
            }
            self.append(commit).execute(db.write_alone()).await?;
            return Ok(());
        }
        let mut tx = db.write().await?;
        write_changed(&mut tx, &commit.changed).await?;
        if !commit.cursors.is_empty() {
            self.write_cursors(commit).execute(&mut *tx).await?;
        }
        if !commit.letters.is_empty() {
            self.append(commit).execute(&mut *tx).await?;
        }
        tx.commit().await
    }

    /// The letters go end to end as they are: as JSON in JSON they would be written and read twice.
    fn append(&self, commit: &Commit) -> Query<'static> {
        let (mut text, mut parts) = (Vec::new(), Vec::with_capacity(commit.letters.len()));
        for letter in &commit.letters {
            let start = text.len() as i64 + 1;
            // Plain data, into memory: nothing that can fail.
            let _ = serde_json::to_writer(&mut text, &**letter);
            // Two numbers in one: an array for each letter would have to be read by itself.
            parts.push((start << 32) | (text.len() as i64 + 1 - start));
        }
        sqlx::query(
            "INSERT INTO letter (id, at, data)
             SELECT $1 + key, $2, CAST(substr($3, value >> 32, value & 4294967295) AS TEXT) FROM json_each($4)",
        )
        .bind(self.last + 1)
        .bind(commit.letters.first().map_or(0, |letter| letter.at))
        .bind(text)
        .bind(json(&parts))
    }

    fn write_cursors(&self, commit: &Commit) -> Query<'static> {
        let rows: Vec<(i64, &str, &str, i64)> = commit
            .cursors
            .iter()
            .map(|((inbox, slot, sender), seq)| (*inbox, slot.as_str(), sender.as_str(), *seq))
            .collect();
        let query = match self.store.db().engine() {
            Engine::Sqlite => sqlx::query(
                "INSERT INTO cursor (inbox, slot, sender, seq)
                 SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each($1) WHERE true
                 ON CONFLICT (inbox, slot, sender) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > cursor.seq",
            ),
            Engine::Postgres => sqlx::query(
                "INSERT INTO cursor (inbox, slot, sender, seq)
                 SELECT CAST(v ->> 0 AS BIGINT), v ->> 1, v ->> 2, CAST(v ->> 3 AS BIGINT)
                 FROM json_array_elements(CAST($1 AS JSON)) AS v
                 ON CONFLICT (inbox, slot, sender) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > cursor.seq",
            ),
        };
        query.bind(json(&rows))
    }

    pub(super) async fn write_filed(
        &self,
        commit: &mut Commit,
        mut tx: Transaction<'static, Any>,
    ) -> sqlx::Result<()> {
        write_changed(&mut tx, &commit.changed).await?;
        if !commit.cursors.is_empty() {
            self.write_cursors(commit).execute(&mut *tx).await?;
        }
        if let Some(first) = commit.letters.first() {
            self.append_filed(commit, first.at).execute(&mut *tx).await?;
        }
        tx.commit().await
    }

    /// On PostgreSQL the letters and where they lie are one statement.
    fn append_filed(&self, commit: &Commit, at: i64) -> Query<'static> {
        let data: Vec<String> = commit.letters.iter().map(|letter| json(&**letter)).collect();
        let mut entries: Vec<(usize, i64, i64, u32, &str)> = Vec::new();
        let mut heads: BTreeMap<i64, i64> = BTreeMap::new();
        for (n, letter) in commit.letters.iter().enumerate() {
            for place in &letter.places {
                entries.push((n + 1, place.inbox, place.seq, place.copy, letter.from.as_str()));
                heads.insert(place.inbox, place.seq);
            }
        }
        let keys: Vec<String> = commit.letters.iter().map(|letter| letter.key.text()).collect();
        sqlx::query(
            "WITH made AS (
                 SELECT nextval(pg_get_serial_sequence('letter', 'id')) AS id, n, data
                 FROM json_array_elements_text(CAST($2 AS JSON)) WITH ORDINALITY AS v (data, n)),
             letters AS (INSERT INTO letter (id, at, data) SELECT id, $1, data FROM made),
             keys AS (
                 INSERT INTO seen (key, letter) SELECT v.key, made.id
                 FROM json_array_elements_text(CAST($3 AS JSON)) WITH ORDINALITY AS v (key, n)
                 JOIN made ON made.n = v.n),
             heads AS (
                 UPDATE head SET seq = CAST(v ->> 1 AS BIGINT) FROM json_array_elements(CAST($5 AS JSON)) AS v
                 WHERE head.inbox = CAST(v ->> 0 AS BIGINT))
             INSERT INTO entry (inbox, seq, letter, copy, sender)
             SELECT CAST(v ->> 1 AS BIGINT), CAST(v ->> 2 AS BIGINT), made.id, CAST(v ->> 3 AS BIGINT), v ->> 4
             FROM json_array_elements(CAST($4 AS JSON)) AS v JOIN made ON made.n = CAST(v ->> 0 AS BIGINT)",
        )
        .bind(at)
        .bind(json(&data))
        .bind(json(&keys))
        .bind(json(&entries))
        .bind(json(&heads.into_iter().collect::<Vec<_>>()))
    }
}

type Query<'q> = sqlx::query::Query<'q, Any, AnyArguments>;

async fn write_changed(tx: &mut Transaction<'static, Any>, changed: &[Arc<Letter>]) -> sqlx::Result<()> {
    for letter in changed {
        sqlx::query("UPDATE letter SET data = $2 WHERE id = $1")
            .bind(letter.id)
            .bind(json(&**letter))
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}
