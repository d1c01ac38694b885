//! What waits and what became of it, for operators and owners.

use super::Outbox;
use sqlx::{Any, AnyConnection, AssertSqlSafe};

/// How sending to a destination goes.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct DestinationState {
    pub destination: String,
    pub waiting: i64,
    pub bytes: i64,
    /// When the first row that waits was written.
    pub oldest_at: Option<i64>,
    pub attempts: i64,
    pub last_error: Option<String>,
    pub next_try: i64,
    pub delivered: i64,
    pub refused: i64,
    pub expired: i64,
}

/// A row that waits, or that ended and is kept.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct OutboxEntry {
    pub key: String,
    /// `waiting`, `delivered` or `given_up`.
    pub outcome: String,
    /// Of one that was given up, or whose last attempt failed.
    pub reason: Option<String>,
    pub attempts: i64,
    /// When it is tried next, if it waits.
    pub next_try: i64,
    pub created_at: i64,
    pub ended_at: Option<i64>,
    pub data: String,
}

impl Outbox {
    /// Those with the most rows first.
    pub async fn destinations(&self, most: i64) -> sqlx::Result<Vec<DestinationState>> {
        let text = format!(
            "SELECT destination, waiting, bytes, attempts, last_error, next_try, delivered, refused, expired,
                 (SELECT created_at FROM {} AS first WHERE first.destination = state.destination
                  ORDER BY position, key LIMIT 1) AS oldest_at
             FROM {} AS state ORDER BY waiting DESC, destination LIMIT $1",
            self.tables.rows, self.tables.destinations
        );
        sqlx::query_as::<Any, DestinationState>(AssertSqlSafe(text))
            .bind(most)
            .fetch_all(self.db.read())
            .await
    }

    /// How many rows wait for a destination, and how large they are together.
    pub async fn waiting(&self, destination: &str) -> sqlx::Result<(i64, i64)> {
        let text = format!("SELECT waiting, bytes FROM {} WHERE destination = $1", self.tables.destinations);
        let row: Option<(i64, i64)> =
            sqlx::query_as(AssertSqlSafe(text)).bind(destination).fetch_optional(self.db.read()).await?;
        Ok(row.unwrap_or_default())
    }

    /// How many rows wait in all.
    pub async fn count(&self) -> sqlx::Result<i64> {
        let text = format!("SELECT COUNT(*) FROM {}", self.tables.rows);
        sqlx::query_scalar(AssertSqlSafe(text)).fetch_one(self.db.read()).await
    }

    /// When a row that waits expires.
    pub async fn expires_at(&self, key: &str) -> sqlx::Result<Option<i64>> {
        let text = format!("SELECT expires_at FROM {} WHERE key = $1", self.tables.rows);
        let found: Option<Option<i64>> =
            sqlx::query_scalar(AssertSqlSafe(text)).bind(key).fetch_optional(self.db.read()).await?;
        Ok(found.flatten())
    }

    /// The rows of a destination whose keys are before this one, the last first: for keys that are ordered by time. `outcome`
    /// chooses those that wait, or that ended so; an empty one chooses all.
    pub async fn entries(
        &self,
        destination: &str,
        outcome: &str,
        before: &str,
        most: i64,
    ) -> sqlx::Result<Vec<OutboxEntry>> {
        // The first row alone was tried. The others wait since they were written.
        let text = format!(
            "SELECT key, outcome, reason, attempts, next_try, created_at, ended_at, data FROM (
                 SELECT waits.key, 'waiting' AS outcome,
                     CASE WHEN waits.key = first.key THEN state.last_error END AS reason,
                     CASE WHEN waits.key = first.key THEN state.attempts ELSE 0 END AS attempts,
                     CASE WHEN waits.key = first.key AND state.attempts > 0 THEN state.next_try ELSE waits.created_at END
                         AS next_try,
                     waits.created_at, NULL AS ended_at, waits.data
                 FROM {rows} AS waits
                 JOIN {destinations} AS state ON state.destination = waits.destination
                 CROSS JOIN (SELECT key FROM {rows} WHERE destination = $1 ORDER BY position, key LIMIT 1) AS first
                 WHERE waits.destination = $1
                 UNION ALL
                 SELECT key, outcome, reason, attempts, 0, created_at, ended_at, data FROM {ended} WHERE destination = $1
             ) AS entry
             WHERE key < $2 AND ($3 = '' OR outcome = $3) ORDER BY key DESC LIMIT $4",
            rows = self.tables.rows,
            destinations = self.tables.destinations,
            ended = self.tables.ended
        );
        sqlx::query_as::<Any, OutboxEntry>(AssertSqlSafe(text))
            .bind(destination)
            .bind(before)
            .bind(outcome)
            .bind(most)
            .fetch_all(self.db.read())
            .await
    }

    /// Removes everything of a destination that is gone, in the transaction that removes it.
    pub async fn remove_destination(&self, tx: &mut AnyConnection, destination: &str) -> sqlx::Result<()> {
        // The destination first, as whoever settles a page locks it.
        let kept = (self.settings.kept_ended > 0).then_some(&self.tables.ended);
        for table in [Some(&self.tables.destinations), Some(&self.tables.rows), kept].into_iter().flatten() {
            let text = format!("DELETE FROM {table} WHERE destination = $1");
            sqlx::query(AssertSqlSafe(text)).bind(destination).execute(&mut *tx).await?;
        }
        Ok(())
    }
}
