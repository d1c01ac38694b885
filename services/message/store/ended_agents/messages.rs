//! The messages in the inboxes of an agent whose AID ended.
//!
//! A message that only such inboxes have is removed. One that others have, too, such as devices of its sender, stays theirs until the
//! retention.

use crate::store::Store;
use crate::store::bind::{array, json};
use crate::store::stored_message::StoredMessage;
use kernel::Engine;
use std::sync::Arc;
use std::time::Duration;

/// How many messages of an inbox are removed at once.
const PAGE: i64 = 200;
/// How long, and how often, it is looked whether the index has what the log has.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const LOOKS: usize = 200;

impl Store {
    /// Waits until the index has what the log has by now: only what is indexed can be removed, or it would be indexed after that. False
    /// if that takes too long.
    pub async fn is_indexed(&self) -> bool {
        let Some(last) = self.unindexed.read().newest() else { return true };
        for _ in 0..LOOKS {
            if self.first_unindexed() > last {
                return true;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        false
    }

    fn first_unindexed(&self) -> i64 {
        self.unindexed.read().oldest(1).first().map_or(i64::MAX, |message| message.id)
    }

    /// Removes the messages in these inboxes, which are all of one agent; on SQLite those that are indexed.
    pub async fn remove_messages_of(&self, inboxes: &[i64]) -> sqlx::Result<()> {
        for inbox in inboxes {
            loop {
                let removed = match self.db.engine() {
                    Engine::Sqlite => self.remove_indexed_page(*inbox, inboxes).await?,
                    Engine::Postgres => self.remove_page(*inbox, inboxes).await?,
                };
                if removed < PAGE.unsigned_abs() as usize {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// On SQLite. Out of the index first, as for the retention: a crash in between leaves messages in the log that nobody finds.
    async fn remove_indexed_page(&self, inbox: i64, removed: &[i64]) -> sqlx::Result<usize> {
        let rows: Vec<(i64, i64)> = sqlx::query_as(
            "SELECT seq, letter FROM place WHERE inbox = $1 AND letter < $2 ORDER BY seq LIMIT $3",
        )
        .bind(inbox)
        .bind(self.first_unindexed())
        .bind(PAGE)
        .fetch_all(self.index.read())
        .await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let (seqs, ids): (Vec<i64>, Vec<i64>) = rows.iter().copied().unzip();
        let mut messages: Vec<Arc<StoredMessage>> = self.messages(ids).await?;
        messages.retain(|message| is_only_in(message, removed));
        self.remove_from_index(&messages).await?;
        sqlx::query("DELETE FROM place WHERE inbox = $1 AND seq IN (SELECT value FROM json_each($2))")
            .bind(inbox)
            .bind(json(&seqs))
            .execute(self.index.write_alone())
            .await?;
        let ids: Vec<i64> = messages.iter().map(|message| message.id).collect();
        let query = sqlx::query("DELETE FROM letter WHERE id IN (SELECT value FROM json_each($1))");
        self.db.counted(query.bind(json(&ids)).execute(self.db.write_alone())).await?;
        self.was_written();
        Ok(rows.len())
    }

    /// On PostgreSQL. A row whose text others need leaves the inbox and stays.
    async fn remove_page(&self, inbox: i64, removed: &[i64]) -> sqlx::Result<usize> {
        let mut tx = self.db.begin().await?;
        let rows: Vec<(i64, Option<String>)> =
            sqlx::query_as("SELECT id, data FROM letter WHERE inbox = $1 ORDER BY seq LIMIT $2 FOR UPDATE")
                .bind(inbox)
                .bind(PAGE)
                .fetch_all(&mut *tx)
                .await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let (mut gone, mut needed) = (Vec::new(), Vec::new());
        for (id, data) in &rows {
            let text = data.as_deref().map(|data| StoredMessage::read(*id, data)).transpose()?;
            match text.is_none_or(|message| is_only_in(&message, removed)) {
                true => gone.push(*id),
                false => needed.push(*id),
            }
        }
        for (statement, ids) in [
            ("DELETE FROM letter WHERE id = ANY(CAST($1 AS BIGINT[]))", gone),
            ("UPDATE letter SET inbox = NULL, seq = NULL WHERE id = ANY(CAST($1 AS BIGINT[]))", needed),
        ] {
            sqlx::query(statement).bind(array(ids)).execute(&mut *tx).await?;
        }
        self.db.commit(tx).await?;
        Ok(rows.len())
    }
}

fn is_only_in(message: &StoredMessage, inboxes: &[i64]) -> bool {
    message.entries.iter().all(|entry| inboxes.contains(&entry.inbox))
}
