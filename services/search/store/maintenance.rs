//! Snapshots, compaction and retention of the log.

use super::Store;
use sqlx::Any;

/// How many snapshots of midnight can be read.
const MOST_DAILY: i64 = 3;
/// How long a snapshot that was frozen for a reader is kept after its last page was read.
const READ_MS: i64 = 15 * 60_000;
/// How long it is kept at most, however long it is read: documents that were removed meanwhile are in it.
const KEPT_MS: i64 = 6 * 60 * 60_000;
/// That a page was read is written at most so often: a snapshot is kept for so much longer.
const READ_STEP_MS: i64 = 60_000;
/// Entries that one statement removes.
const STEP: i64 = 1000;

/// A frozen state of the directory: the versions that are valid at its cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct SnapshotRow {
    pub version: String,
    pub cut: i64,
    read_at: i64,
}

impl Store {
    /// Freezes the directory as it is for the midnight of this version, and keeps the newest of these. Two processes that do it at once
    /// freeze the same: the first one counts.
    pub async fn freeze_daily(&self, version: &str, now: i64) -> sqlx::Result<()> {
        let mut log = self.write_log(now).await?;
        sqlx::query(
            "INSERT INTO snapshot (version, cut, frozen_at, daily, read_at)
             VALUES ($1, (SELECT value FROM state WHERE name = 'sequence'), $2, 1, $2)
             ON CONFLICT (version) DO UPDATE SET daily = 1",
        )
        .bind(version)
        .bind(now)
        .execute(&mut **log.tx())
        .await?;
        sqlx::query(
            "DELETE FROM snapshot WHERE daily = 1 AND version NOT IN
             (SELECT version FROM snapshot WHERE daily = 1 ORDER BY version DESC LIMIT $1)",
        )
        .bind(MOST_DAILY)
        .execute(&mut **log.tx())
        .await?;
        self.commit(log).await?;
        Ok(())
    }

    /// Freezes the directory as it is for a reader, unless the newest snapshot shows it already or is not older than `lately`. Looked at
    /// again in the transaction: another process may have frozen it meanwhile.
    pub async fn freeze_for_reader(&self, version: &str, lately: &str, now: i64) -> sqlx::Result<()> {
        let mut log = self.write_log(now).await?;
        sqlx::query(
            "INSERT INTO snapshot (version, cut, frozen_at, daily, read_at)
             SELECT $1, value, $3, 0, $3 FROM state WHERE name = 'sequence'
             AND NOT EXISTS (SELECT 1 FROM snapshot WHERE cut = value OR (version >= $2 AND cut > 0))
             ON CONFLICT DO NOTHING",
        )
        .bind(version)
        .bind(lately)
        .bind(now)
        .execute(&mut **log.tx())
        .await?;
        self.commit(log).await?;
        Ok(())
    }

    /// A page of a snapshot is read. It is not written down for every page.
    pub async fn snapshot_read(&self, snapshot: &SnapshotRow, now: i64) -> sqlx::Result<()> {
        if now - snapshot.read_at < READ_STEP_MS {
            return Ok(());
        }
        let mut tx = self.db.begin().await?;
        sqlx::query("UPDATE snapshot SET read_at = $2 WHERE version = $1 AND read_at < $2")
            .bind(&snapshot.version)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        self.db.commit(tx).await
    }

    /// Removes the snapshots that were frozen for readers and that nobody reads any more, or that have been read for too long.
    pub async fn remove_unread_snapshots(&self, now: i64) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        sqlx::query("DELETE FROM snapshot WHERE daily = 0 AND (read_at < $1 OR frozen_at < $2)")
            .bind(now - READ_MS - READ_STEP_MS)
            .bind(now - KEPT_MS)
            .execute(&mut *tx)
            .await?;
        self.db.commit(tx).await
    }

    /// The snapshots, the newest first.
    pub async fn snapshots(&self) -> sqlx::Result<Vec<SnapshotRow>> {
        sqlx::query_as::<Any, SnapshotRow>(
            "SELECT version, cut, read_at FROM snapshot ORDER BY cut DESC, version DESC",
        )
        .fetch_all(self.db.read())
        .await
    }

    /// The version of the newest snapshot of a midnight.
    pub async fn newest_daily(&self) -> sqlx::Result<Option<String>> {
        sqlx::query_scalar("SELECT MAX(version) FROM snapshot WHERE daily = 1")
            .fetch_one(self.db.read())
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
