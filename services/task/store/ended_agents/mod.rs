//! What is stored for an agent whose AID ended: its open tasks, what is its own alone, and the trees of tasks that it took part in.

mod trees;

pub(crate) use trees::{EndedTasksPage, TaskSide};

use super::Store;
use super::row::task_id;
use crate::model::state::TaskState;
use kernel::{Aid, Engine};
use proto_schemas::requests::task::TaskId;
use sqlx::AssertSqlSafe;

/// Rows that one transaction removes.
const STEP: i64 = 500;

impl Store {
    /// Some of the open tasks that an agent has given or got.
    pub async fn open_tasks_of(&self, aid: &Aid, most: i64) -> sqlx::Result<Vec<TaskId>> {
        let open = TaskState::ALL.into_iter().filter(|state| !state.is_terminal());
        let open = open.map(|state| format!("'{state}'")).collect::<Vec<_>>().join(", ");
        let of = |side: &str| {
            format!(
                "SELECT id FROM (SELECT id FROM task WHERE {side} = $1 AND status IN ({open}) LIMIT $2) AS {side}s"
            )
        };
        let text = format!("{} UNION {}", of("owner"), of("assignee"));
        let rows: Vec<String> = sqlx::query_scalar(AssertSqlSafe(text))
            .bind(aid.as_str())
            .bind(most)
            .fetch_all(self.db.read())
            .await?;
        rows.into_iter().map(task_id).collect()
    }

    /// Removes what is an agent's alone: its subscriptions, what is known of its tasks in other domains, and the answers to its calls.
    pub async fn remove_rows_of(&self, aid: &Aid) -> sqlx::Result<()> {
        let scope = format!("owner {aid}");
        for (table, key, column, value) in [
            ("task_subscription", "aid, device, slot, task_id", "aid", aid.as_str()),
            ("task_stub", "aid, task_id", "aid", aid.as_str()),
            ("task_answer", "scope, key", "scope", &scope),
            ("task_content_removal", "aid", "aid", aid.as_str()),
        ] {
            // Rows that somebody writes at this moment are left for the next time.
            let skip = if self.engine() == Engine::Postgres { " FOR UPDATE SKIP LOCKED" } else { "" };
            let text = format!(
                "DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {column} = $1 LIMIT $2{skip})"
            );
            loop {
                let query = sqlx::query(AssertSqlSafe(text.clone())).bind(value).bind(STEP);
                let gone = self.db.counted(query.execute(self.db.write_alone())).await?;
                if gone.rows_affected() < STEP.unsigned_abs() {
                    break;
                }
            }
        }
        Ok(())
    }
}
