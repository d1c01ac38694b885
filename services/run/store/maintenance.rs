//! What is looked for by time.

use super::Store;
use kernel::Engine;
use sqlx::{Any, AnyConnection, AssertSqlSafe};

/// The tables whose rows go with their run, what costs most first.
const OF_RUN: [&str; 6] = ["run_command", "run_approval", "run_runner", "run_job", "run_token", "run_task"];
/// Events that are removed in one transaction.
const EVENTS: i64 = 2000;

impl Store {
    /// Runs at which the server has to look now.
    pub async fn due_runs(&self, now: i64, limit: i64) -> sqlx::Result<Vec<String>> {
        sqlx::query_scalar("SELECT id FROM run WHERE due_at <= $1 ORDER BY due_at LIMIT $2")
            .bind(now)
            .bind(limit)
            .fetch_all(self.db.read())
            .await
    }

    /// After the clock was set back, every time at which the server has to look at a run is too late, and a lease that was renewed before
    /// seems to last until then.
    pub async fn look_at_all(&self, now: i64) -> sqlx::Result<()> {
        let all = sqlx::query(
            "UPDATE run SET due_at = $1
             WHERE due_at > $1 OR (ended_at IS NULL AND lease_released = 0 AND lease_until > $1 + lease_ms)",
        );
        let all = all.bind(now);
        self.db.counted(all.execute(self.db.write_alone())).await?;
        Ok(())
    }

    /// Runs that ended before this time.
    pub async fn ended_runs(&self, before: i64, limit: i64) -> sqlx::Result<Vec<String>> {
        sqlx::query_scalar("SELECT id FROM run WHERE ended_at < $1 ORDER BY ended_at LIMIT $2")
            .bind(before)
            .bind(limit)
            .fetch_all(self.db.read())
            .await
    }

    /// Removes a run with everything that belongs to it: its events in steps, the numbers in its row with them, so that accounts are right
    /// after each of them. False if another process is about to change it, or has removed it.
    pub async fn remove_run(&self, id: &str) -> sqlx::Result<bool> {
        loop {
            let mut tx = self.db.begin().await?;
            if !self.lock_to_remove(&mut tx, id).await? {
                tx.rollback().await?;
                return Ok(false);
            }
            let removed: Vec<i64> = sqlx::query_scalar::<Any, i64>(
                "DELETE FROM run_event WHERE run_id = $1 AND seq IN
                     (SELECT seq FROM run_event WHERE run_id = $1 ORDER BY seq LIMIT $2)
                 RETURNING CAST(octet_length(payload) AS BIGINT)",
            )
            .bind(id.to_owned())
            .bind(EVENTS)
            .fetch_all(&mut *tx)
            .await?;
            if removed.is_empty() {
                for table in OF_RUN {
                    let text = format!("DELETE FROM {table} WHERE run_id = $1");
                    sqlx::query::<Any>(AssertSqlSafe(text)).bind(id.to_owned()).execute(&mut *tx).await?;
                }
                sqlx::query("DELETE FROM run WHERE id = $1").bind(id.to_owned()).execute(&mut *tx).await?;
                self.db.commit(tx).await?;
                return Ok(true);
            }
            let (rows, bytes) =
                (i64::try_from(removed.len()).unwrap_or(i64::MAX), removed.iter().sum::<i64>());
            sqlx::query(
                "UPDATE run SET event_rows = event_rows - $2, event_bytes = event_bytes - $3 WHERE id = $1",
            )
            .bind(id.to_owned())
            .bind(rows)
            .bind(bytes)
            .execute(&mut *tx)
            .await?;
            self.db.commit(tx).await?;
        }
    }

    /// On PostgreSQL the run is locked before its rows are removed, as a commit does it: what is removed changes the account of its tenant,
    /// and a commit takes that last. And no two processes remove the events of one run, of which the slower one would find none left
    /// and think that it may remove the run. On SQLite there is one writer.
    async fn lock_to_remove(&self, tx: &mut AnyConnection, id: &str) -> sqlx::Result<bool> {
        if self.engine() == Engine::Sqlite {
            return Ok(true);
        }
        let lock = "SELECT id FROM run WHERE id = $1 FOR UPDATE SKIP LOCKED";
        let locked: Option<String> = sqlx::query_scalar(lock).bind(id).fetch_optional(tx).await?;
        Ok(locked.is_some())
    }
}
