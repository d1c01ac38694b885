//! Retention: the oldest messages are removed, a few at a time, and the floors of their inboxes rise.

use super::Store;
use super::stored_message::StoredMessage;
use kernel::Engine;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Store {
    /// Removes some messages older than this and raises the floors of their inboxes; says how many it removed.
    pub async fn remove_old(&self, older_than: i64, most: usize) -> sqlx::Result<usize> {
        match self.db.engine() {
            Engine::Sqlite => self.remove_from_log(older_than, most).await,
            Engine::Postgres => self.remove_entries(older_than, most).await,
        }
    }

    /// On SQLite. Out of the index first: a crash in between leaves messages in the log that nobody finds, and they are the
    /// next ones to be removed.
    async fn remove_from_log(&self, older_than: i64, most: usize) -> sqlx::Result<usize> {
        // The log is in the order of time, or nearly: nothing after the first message that may stay is looked at.
        let rows: Vec<(i64, i64, String)> =
            sqlx::query_as("SELECT id, at, data FROM letter ORDER BY id LIMIT $1")
                .bind(most as i64)
                .fetch_all(self.db.read())
                .await?;
        let old = rows.into_iter().take_while(|(_, at, _)| *at < older_than);
        let messages: Vec<Arc<StoredMessage>> =
            old.map(|(id, _, data)| StoredMessage::read(id, &data)).collect::<sqlx::Result<_>>()?;
        let Some(last) = messages.last().map(|message| message.id) else { return Ok(0) };
        let unindexed = self.unindexed.read().oldest(1).first().map(|message| message.id);
        if unindexed.is_some_and(|first| first <= last) {
            return Ok(0); // Otherwise it would be indexed after it was removed.
        }
        let floors = self.remove_from_index(&messages).await?;
        let mut tx = self.db.begin().await?;
        for (inbox, floor) in &floors {
            sqlx::query("UPDATE inbox SET floor = $2 WHERE id = $1 AND floor < $2")
                .bind(*inbox)
                .bind(*floor)
                .execute(&mut *tx)
                .await?;
        }
        sqlx::query("DELETE FROM letter WHERE id <= $1").bind(last).execute(&mut *tx).await?;
        self.db.commit(tx).await?;
        let mut states = self.inbox_states.write();
        for (inbox, floor) in floors {
            // Not there if the inbox was removed.
            if let Some(state) = states.get_mut(&inbox) {
                state.floor = state.floor.max(floor);
            }
        }
        Ok(messages.len())
    }

    /// On PostgreSQL. Two processes may do this at once: rows that one has locked, the other skips. A floor is the highest seq
    /// that was ever removed, even if lower ones are left for a moment: otherwise that seq could be given again.
    async fn remove_entries(&self, older_than: i64, most: usize) -> sqlx::Result<usize> {
        let mut tx = self.db.begin().await?;
        let gone: Vec<(Option<i64>, Option<i64>)> = sqlx::query_as(
            "DELETE FROM letter WHERE id = ANY(ARRAY(
                 SELECT id FROM letter WHERE at < $1 AND id = ANY(ARRAY(SELECT id FROM letter ORDER BY id LIMIT $2))
                 FOR UPDATE SKIP LOCKED))
             RETURNING inbox, seq",
        )
        .bind(older_than)
        .bind(most as i64)
        .fetch_all(&mut *tx)
        .await?;
        if gone.is_empty() {
            return Ok(0);
        }
        let mut floors: BTreeMap<i64, i64> = BTreeMap::new();
        for (inbox, seq) in gone.iter().filter_map(|(inbox, seq)| Some(((*inbox)?, (*seq)?))) {
            let floor = floors.entry(inbox).or_default();
            *floor = seq.max(*floor);
        }
        for (inbox, last) in floors {
            sqlx::query("UPDATE head SET floor = GREATEST(floor, $2) WHERE inbox = $1")
                .bind(inbox)
                .bind(last)
                .execute(&mut *tx)
                .await?;
        }
        self.db.commit(tx).await?;
        Ok(gone.len())
    }
}
