//! How far consumers have read. Cursors are moved in the commits of the ledger and read here.

use super::Store;
use std::collections::HashMap;

/// How many slots of a device have positions. Of more than these, the ones that have read least far start again.
pub(crate) const SLOTS_PER_DEVICE: i64 = 256;
/// In how many inboxes one call removes positions.
const INBOXES_AT_ONCE: i64 = 100;
/// How many slots one transaction removes.
const SLOTS_AT_ONCE: usize = 100;

impl Store {
    /// How far a consumer has read: `sender` is empty for all of them together.
    pub async fn cursor(&self, inbox: i64, slot: &str, sender: &str) -> sqlx::Result<Option<i64>> {
        sqlx::query_scalar("SELECT seq FROM cursor WHERE inbox = $1 AND slot = $2 AND sender = $3")
            .bind(inbox)
            .bind(slot)
            .bind(sender)
            .fetch_optional(self.db.read())
            .await
    }

    /// How far anybody has read in an inbox.
    pub async fn read_through(&self, inbox: i64) -> sqlx::Result<i64> {
        sqlx::query_scalar("SELECT CAST(COALESCE(MAX(seq), 0) AS BIGINT) FROM cursor WHERE inbox = $1")
            .bind(inbox)
            .fetch_one(self.db.read())
            .await
    }

    /// How far a consumer has read of each sender.
    pub async fn cursors(&self, inbox: i64, slot: &str) -> sqlx::Result<HashMap<String, i64>> {
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT sender, seq FROM cursor WHERE inbox = $1 AND slot = $2 AND sender <> ''")
                .bind(inbox)
                .bind(slot)
                .fetch_all(self.db.read())
                .await?;
        Ok(rows.into_iter().collect())
    }

    /// The cursor a consumer had when it first asked sender by sender; from then on it never changes.
    pub async fn bootstrap_floor(&self, inbox: i64, slot: &str) -> sqlx::Result<i64> {
        let select = "SELECT bootstrap_floor FROM consumer WHERE inbox = $1 AND slot = $2";
        let known: Option<i64> =
            sqlx::query_scalar(select).bind(inbox).bind(slot).fetch_optional(self.db.read()).await?;
        if let Some(floor) = known {
            return Ok(floor);
        }
        let mut tx = self.db.begin().await?;
        sqlx::query(
            "INSERT INTO consumer (inbox, slot, bootstrap_floor)
             VALUES ($1, $2, COALESCE((SELECT seq FROM cursor WHERE inbox = $1 AND slot = $2 AND sender = ''), 0))
             ON CONFLICT DO NOTHING",
        )
        .bind(inbox)
        .bind(slot)
        .execute(&mut *tx)
        .await?;
        let floor = sqlx::query_scalar(select).bind(inbox).bind(slot).fetch_one(&mut *tx).await?;
        self.db.commit(tx).await?;
        Ok(floor)
    }

    /// Removes the positions of slots that are too many. A client chooses its slots, and nothing else removes them while its device
    /// stays.
    pub async fn remove_slots(&self) -> sqlx::Result<()> {
        let inboxes: Vec<i64> = sqlx::query_scalar(
            "SELECT inbox FROM (SELECT inbox, slot FROM cursor UNION SELECT inbox, slot FROM consumer) AS slots
             GROUP BY inbox HAVING COUNT(*) > $1 LIMIT $2",
        )
        .bind(SLOTS_PER_DEVICE)
        .bind(INBOXES_AT_ONCE)
        .fetch_all(self.db.read())
        .await?;
        for inbox in inboxes {
            self.remove_slots_of(inbox).await?;
        }
        Ok(())
    }

    async fn remove_slots_of(&self, inbox: i64) -> sqlx::Result<()> {
        // The least read first. A slot that has only asked sender by sender has read nothing.
        let slots: Vec<String> = sqlx::query_scalar(
            "SELECT slot FROM
             (SELECT slot FROM cursor WHERE inbox = $1 UNION SELECT slot FROM consumer WHERE inbox = $1) AS slots
             ORDER BY (SELECT COALESCE(MAX(seq), 0) FROM cursor WHERE inbox = $1 AND cursor.slot = slots.slot), slot",
        )
        .bind(inbox)
        .fetch_all(self.db.read())
        .await?;
        let excess = slots.len().saturating_sub(SLOTS_PER_DEVICE as usize);
        for slots in slots[..excess].chunks(SLOTS_AT_ONCE) {
            let mut tx = self.db.begin().await?;
            for slot in slots {
                for statement in [
                    "DELETE FROM cursor WHERE inbox = $1 AND slot = $2",
                    "DELETE FROM consumer WHERE inbox = $1 AND slot = $2",
                ] {
                    sqlx::query(statement).bind(inbox).bind(slot.as_str()).execute(&mut *tx).await?;
                }
            }
            self.db.commit(tx).await?;
        }
        Ok(())
    }
}
