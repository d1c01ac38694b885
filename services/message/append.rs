//! The statements of a commit on SQLite: one for the messages and one for the cursors, whatever their number.

use super::store::json;
use super::stored_message::StoredMessage;
use super::writer::{Commit, Writer};
use sqlx::any::AnyArguments;
use sqlx::{Any, Transaction};
use std::sync::Arc;

impl Writer {
    /// Messages alone, which is what nearly every commit is, are one statement and need no other.
    pub(super) async fn write_log(&self, commit: &mut Commit) -> sqlx::Result<()> {
        let db = self.store.db();
        if commit.changed.is_empty() && commit.cursors.is_empty() {
            if commit.messages.is_empty() {
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
        if !commit.messages.is_empty() {
            self.append(commit).execute(&mut *tx).await?;
        }
        tx.commit().await
    }

    /// The messages go end to end as they are: as JSON in JSON they would be written and read twice.
    fn append(&self, commit: &Commit) -> Query<'static> {
        let (mut text, mut parts) = (Vec::new(), Vec::with_capacity(commit.messages.len()));
        for message in &commit.messages {
            let start = text.len() as i64 + 1;
            // Plain data, into memory: nothing that can fail.
            let _ = serde_json::to_writer(&mut text, &**message);
            // Two numbers in one: an array for each message would have to be read by itself.
            parts.push((start << 32) | (text.len() as i64 + 1 - start));
        }
        sqlx::query(
            "INSERT INTO letter (id, at, data)
             SELECT $1 + key, $2, CAST(substr($3, value >> 32, value & 4294967295) AS TEXT) FROM json_each($4)",
        )
        .bind(self.last + 1)
        .bind(commit.messages.first().map_or(0, |message| message.at))
        .bind(text)
        .bind(json(&parts))
    }

    fn write_cursors(&self, commit: &Commit) -> Query<'static> {
        let rows: Vec<(i64, &str, &str, i64)> = commit
            .cursors
            .iter()
            .map(|((inbox, slot, sender), seq)| (*inbox, slot.as_str(), sender.as_str(), *seq))
            .collect();
        sqlx::query(
            "INSERT INTO cursor (inbox, slot, sender, seq)
             SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each($1) WHERE true
             ON CONFLICT (inbox, slot, sender) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > cursor.seq",
        )
        .bind(json(&rows))
    }
}

type Query<'q> = sqlx::query::Query<'q, Any, AnyArguments>;

pub(super) async fn write_changed(
    tx: &mut Transaction<'static, Any>,
    changed: &[Arc<StoredMessage>],
) -> sqlx::Result<()> {
    for message in changed {
        sqlx::query("UPDATE letter SET data = $2 WHERE id = $1")
            .bind(message.id)
            .bind(json(&**message))
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}
