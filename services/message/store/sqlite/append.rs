//! The statements of a commit: one each for the messages, the cursors and the counts of tool calls, however many there are.

use super::writer::{SqliteCommit, SqliteWriter};
use crate::store::bind::json;
use crate::store::recall::update_recalled;
use sqlx::Any;
use sqlx::any::AnyArguments;

impl SqliteWriter {
    /// A commit of messages alone, as nearly every one is, needs one statement and no `BEGIN`.
    pub(crate) async fn write_log(&self, commit: &mut SqliteCommit) -> sqlx::Result<()> {
        let db = self.store.db();
        if commit.changed.is_empty() && commit.cursors.is_empty() && !commit.tool_calls.is_changed() {
            if commit.messages.is_empty() {
                return Ok(());
            }
            self.append(commit).execute(db.write_alone()).await?;
            return Ok(());
        }
        let mut tx = db.write().await?;
        update_recalled(&mut tx, &commit.changed).await?;
        if !commit.cursors.is_empty() {
            self.write_cursors(commit).execute(&mut *tx).await?;
        }
        if !commit.messages.is_empty() {
            self.append(commit).execute(&mut *tx).await?;
        }
        commit.tool_calls.write(&mut tx, db.engine()).await?;
        tx.commit().await
    }

    /// The messages are joined as they are: as JSON in JSON they would be escaped and parsed twice.
    fn append(&self, commit: &SqliteCommit) -> Query<'static> {
        let (mut text, mut slices) = (Vec::new(), Vec::with_capacity(commit.messages.len()));
        for message in &commit.messages {
            let start = text.len() as i64 + 1;
            // Plain data, into memory: nothing that can fail.
            let _ = serde_json::to_writer(&mut text, &**message);
            // Start and length in one number: an array for each message would have to be parsed by itself.
            slices.push((start << 32) | (text.len() as i64 + 1 - start));
        }
        sqlx::query(
            "INSERT INTO letter (id, at, data)
             SELECT $1 + key, $2, CAST(substr($3, value >> 32, value & 4294967295) AS TEXT) FROM json_each($4)",
        )
        .bind(self.last + 1)
        .bind(commit.messages.first().map_or(0, |message| message.at))
        .bind(text)
        .bind(json(&slices))
    }

    fn write_cursors(&self, commit: &SqliteCommit) -> Query<'static> {
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
