//! Which other domains have yet to learn of which tasks.

use super::row::{READ, StoredTask};
use super::Store;
use kernel::json_rows as json;
use crate::model::task::{TaskId, TaskRow};
use sqlx::{Any, AssertSqlSafe};
use std::collections::BTreeMap;

/// Domains that are told at once.
const MOST_DOMAINS: i64 = 256;

impl Store {
    /// The domains for which something is due. Found by the index, one step for each domain, however much waits for it.
    pub async fn due_domains(&self, now: i64) -> sqlx::Result<Vec<String>> {
        sqlx::query_scalar(
            "WITH RECURSIVE waiting(issuer) AS (
                 SELECT MIN(issuer) FROM task_relay
                 UNION ALL
                 SELECT (SELECT MIN(task_relay.issuer) FROM task_relay WHERE task_relay.issuer > waiting.issuer)
                 FROM waiting WHERE waiting.issuer IS NOT NULL)
             SELECT issuer FROM waiting WHERE issuer IS NOT NULL AND EXISTS
                 (SELECT 1 FROM task_relay WHERE task_relay.issuer = waiting.issuer AND due_at <= $1)
             LIMIT $2",
        )
        .bind(now)
        .bind(MOST_DOMAINS)
        .fetch_all(self.db.read())
        .await
    }

    /// The tasks that a domain is to be told of now, as they are; those that wait the longest first.
    pub async fn due_relays(&self, issuer: &str, now: i64, most: i64) -> sqlx::Result<Vec<TaskRow>> {
        let columns = READ.split(',').map(|column| format!("task.{}", column.trim()));
        let row = json::row(self.engine(), &columns.collect::<Vec<_>>().join(", "));
        let text = format!(
            "SELECT {row} FROM task_relay JOIN task ON task.id = task_relay.task_id
             WHERE task_relay.issuer = $1 AND task_relay.due_at <= $2
             ORDER BY task_relay.due_at, task_relay.task_id LIMIT $3"
        );
        let rows: Vec<String> = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text))
            .bind(issuer)
            .bind(now)
            .bind(most)
            .fetch_all(self.db.read())
            .await?;
        rows.iter().map(|row| json::read::<StoredTask>(row)?.read()).collect()
    }

    /// A domain has learned of tasks up to these versions. In the order in which they are written, so that nobody waits for each
    /// other.
    pub async fn remove_relays(&self, issuer: &str, told: &BTreeMap<TaskId, i64>) -> sqlx::Result<()> {
        let mut tx = self.begin().await?;
        for (task_id, version) in told {
            sqlx::query("DELETE FROM task_relay WHERE task_id = $1 AND issuer = $2 AND version <= $3")
                .bind(task_id.as_str())
                .bind(issuer)
                .bind(*version)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await
    }

    pub async fn count_relays(&self) -> sqlx::Result<i64> {
        sqlx::query_scalar("SELECT COUNT(*) FROM task_relay").fetch_one(self.db.read()).await
    }
}
