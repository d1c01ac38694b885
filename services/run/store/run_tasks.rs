//! Tasks that runs work on.

use super::Store;
use sqlx::{Any, AssertSqlSafe};

/// The members of [`RunTaskRow`].
const COLUMNS: &str = "task_id, aid, run_id, command_id, version, messages, asked, created_at, ended_at";

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct RunTaskRow {
    pub task_id: String,
    /// The agent whose task it is.
    pub aid: String,
    pub run_id: String,
    pub command_id: String,
    /// Of the task, when everything that was said had been passed on.
    pub version: i64,
    /// The number of the last message that was passed on.
    pub messages: i64,
    /// The question that its owner was asked last, until it is answered.
    pub asked: Option<String>,
    pub created_at: i64,
    pub ended_at: Option<i64>,
}

impl Store {
    /// Those that have not ended.
    pub async fn run_tasks(&self) -> sqlx::Result<Vec<RunTaskRow>> {
        let text = format!("SELECT {COLUMNS} FROM run_task WHERE ended_at IS NULL ORDER BY task_id");
        sqlx::query_as::<Any, _>(AssertSqlSafe(text)).fetch_all(self.db.read()).await
    }

    /// One that is there stays as it is.
    pub async fn insert_run_task(&self, new: &RunTaskRow) -> sqlx::Result<()> {
        let query = sqlx::query(
            "INSERT INTO run_task (task_id, aid, run_id, command_id, version, messages, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (task_id) DO NOTHING",
        )
        .bind(new.task_id.as_str())
        .bind(new.aid.as_str())
        .bind(new.run_id.as_str())
        .bind(new.command_id.as_str())
        .bind(new.version)
        .bind(new.messages)
        .bind(new.created_at);
        self.db.counted(query.execute(self.db.write_alone())).await?;
        Ok(())
    }

    /// How far what was said was passed on.
    pub async fn save_run_task(&self, row: &RunTaskRow) -> sqlx::Result<()> {
        let query = sqlx::query(
            "UPDATE run_task SET version = $2, messages = $3, asked = $4 WHERE task_id = $1 AND ended_at IS NULL",
        )
        .bind(row.task_id.as_str())
        .bind(row.version)
        .bind(row.messages)
        .bind(row.asked.as_deref());
        self.db.counted(query.execute(self.db.write_alone())).await?;
        Ok(())
    }

    pub async fn end_run_task(&self, task_id: &str, now: i64) -> sqlx::Result<()> {
        let query = sqlx::query("UPDATE run_task SET ended_at = $2 WHERE task_id = $1 AND ended_at IS NULL");
        let query = query.bind(task_id).bind(now);
        self.db.counted(query.execute(self.db.write_alone())).await?;
        Ok(())
    }
}
