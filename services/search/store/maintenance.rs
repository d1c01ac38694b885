//! Snapshots, compaction and retention of the log.

use super::Store;
use sqlx::Any;

/// How many snapshots can be read.
const MOST_SNAPSHOTS: i64 = 3;
/// Entries that one statement removes.
const STEP: i64 = 1000;

/// A frozen state of the directory: the versions that are valid at its cut.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct SnapshotRow {
    pub version: String,
    pub cut: i64,
}

impl Store {
    /// Freezes the directory as it is. Two processes that do it at once freeze the same: the first one counts.
    pub async fn freeze(&self, version: &str, now: i64) -> sqlx::Result<()> {
        let mut log = self.write_log(now).await?;
        sqlx::query(
            "INSERT INTO snapshot (version, cut, frozen_at)
             VALUES ($1, (SELECT value FROM state WHERE name = 'sequence'), $2) ON CONFLICT DO NOTHING",
        )
        .bind(version)
        .bind(now)
        .execute(&mut **log.tx())
        .await?;
        sqlx::query(
            "DELETE FROM snapshot WHERE version NOT IN (SELECT version FROM snapshot ORDER BY version DESC LIMIT $1)",
        )
        .bind(MOST_SNAPSHOTS)
        .execute(&mut **log.tx())
        .await?;
        self.commit(log).await?;
        Ok(())
    }

    /// The snapshots, the newest first.
    pub async fn snapshots(&self) -> sqlx::Result<Vec<SnapshotRow>> {
        sqlx::query_as::<Any, SnapshotRow>("SELECT version, cut FROM snapshot ORDER BY version DESC")
            .fetch_all(self.db.read())
            .await
    }

    /// Removes entries that a later one of the same AID replaces, if they are older than this. Readers expect gaps.
    pub async fn compact(&self, logged_before: i64) -> sqlx::Result<u64> {
        let mut removed = 0;
        loop {
            let mut tx = self.db.begin().await?;
            let gone = sqlx::query(
                "DELETE FROM change_log WHERE sequence IN (
                     SELECT old.sequence FROM change_log AS old WHERE old.logged_at < $1
                     AND EXISTS (SELECT 1 FROM change_log AS later WHERE later.aid = old.aid AND later.sequence > old.sequence)
                     ORDER BY old.sequence LIMIT $2)",
            )
            .bind(logged_before)
            .bind(STEP)
            .execute(&mut *tx)
            .await?
            .rows_affected();
            self.db.commit(tx).await?;
            removed += gone;
            if gone < STEP.unsigned_abs() {
                return Ok(removed);
            }
        }
    }

    /// Removes entries that are too old or too many, from the oldest on, and raises the floor in the same transaction: a reader
    /// whose cursor is below it has to start again from a snapshot.
    pub async fn retain(&self, logged_before: i64, most: i64) -> sqlx::Result<u64> {
        let mut removed = 0;
        loop {
            let mut tx = self.db.begin().await?;
            let last: Option<i64> = sqlx::query_scalar(
                "SELECT MAX(sequence) FROM (
                     SELECT sequence FROM change_log WHERE logged_at < $1
                     OR sequence <= (SELECT sequence FROM change_log ORDER BY sequence DESC LIMIT 1 OFFSET $2)
                     ORDER BY sequence LIMIT $3) AS oldest",
            )
            .bind(logged_before)
            .bind(most)
            .bind(STEP)
            .fetch_one(&mut *tx)
            .await?;
            let Some(last) = last else { return Ok(removed) };
            let gone = sqlx::query("DELETE FROM change_log WHERE sequence <= $1")
                .bind(last)
                .execute(&mut *tx)
                .await?;
            sqlx::query("UPDATE state SET value = $1 WHERE name = 'floor' AND value < $1")
                .bind(last)
                .execute(&mut *tx)
                .await?;
            self.db.commit(tx).await?;
            removed += gone.rows_affected();
        }
    }

    /// Removes versions that no snapshot shows any more.
    pub async fn remove_old_versions(&self) -> sqlx::Result<u64> {
        let mut removed = 0;
        loop {
            let mut tx = self.db.begin().await?;
            let gone = sqlx::query(
                "DELETE FROM listing WHERE (aid, valid_from) IN (
                     SELECT aid, valid_from FROM listing WHERE valid_to < $1
                     AND NOT EXISTS (SELECT 1 FROM snapshot WHERE cut >= listing.valid_from AND cut < listing.valid_to)
                     ORDER BY valid_to LIMIT $2)",
            )
            .bind(super::STILL_VALID)
            .bind(STEP)
            .execute(&mut *tx)
            .await?
            .rows_affected();
            self.db.commit(tx).await?;
            removed += gone;
            if gone == 0 {
                return Ok(removed);
            }
        }
    }
}
