//! Reads single rows, as they are shown.

use super::Store;
use super::row::{
    APPROVAL_READ, COMMAND_READ, JOB_READ, RUN_READ, StoredApproval, StoredCommand, StoredJob, StoredRun,
    damaged,
};
use crate::ids::can_exist;
use crate::model::run::{ApprovalRow, CommandRow, JobRow, RunRow};
use kernel::json_rows as json;
use serde_json::value::RawValue;
use sqlx::{Any, AssertSqlSafe};
use std::collections::BTreeSet;

/// A run with what never changes of it, as JSON.
#[derive(Clone, Debug)]
pub(crate) struct RunFacts {
    pub row: RunRow,
    pub fixed: String,
}

/// A command with its payload.
#[derive(Clone, Debug)]
pub(crate) struct CommandRead {
    pub row: CommandRow,
    pub payload: Box<RawValue>,
}

impl Store {
    pub async fn run(&self, id: &str) -> sqlx::Result<Option<RunFacts>> {
        if !can_exist(id) {
            return Ok(None);
        }
        let row = json::row(self.engine(), RUN_READ);
        let text = format!("SELECT {row}, fixed FROM run WHERE id = $1");
        let query = sqlx::query_as::<Any, (String, String)>(AssertSqlSafe(text)).bind(id.to_owned());
        let found = query.fetch_optional(self.db.read()).await?;
        let read = |(row, fixed): (String, String)| {
            Ok(RunFacts { row: json::read::<StoredRun>(&row)?.read(), fixed })
        };
        found.map(read).transpose()
    }

    /// The run that a tenant has created with this key, and the hash of its request.
    pub async fn run_of_key(&self, tenant: &str, key: &str) -> sqlx::Result<Option<(String, String)>> {
        sqlx::query_as(
            "SELECT id, COALESCE(request_hash, '') FROM run WHERE tenant = $1 AND idempotency_key = $2",
        )
        .bind(tenant.to_owned())
        .bind(key.to_owned())
        .fetch_optional(self.db.read())
        .await
    }

    pub async fn command(&self, id: &str) -> sqlx::Result<Option<CommandRead>> {
        Ok(self.commands("id = $1", &[id], 1).await?.into_iter().next())
    }

    pub async fn newest_command(&self, run: &str) -> sqlx::Result<Option<CommandRead>> {
        Ok(self.commands("run_id = $1 ORDER BY seq DESC", &[run], 1).await?.into_iter().next())
    }

    /// The run that a command belongs to, which never changes.
    pub async fn run_of_command(&self, id: &str) -> sqlx::Result<Option<String>> {
        if !can_exist(id) {
            return Ok(None);
        }
        sqlx::query_scalar("SELECT run_id FROM run_command WHERE id = $1")
            .bind(id.to_owned())
            .fetch_optional(self.db.read())
            .await
    }

    /// Commands of a run that have not ended, without what they ask for.
    pub async fn open_command_rows(&self, run: &str) -> sqlx::Result<Vec<CommandRow>> {
        let row = json::row(self.engine(), COMMAND_READ);
        let text = format!("SELECT {row} FROM run_command WHERE run_id = $1 AND ended_at IS NULL");
        let query = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text)).bind(run.to_owned());
        let rows = query.fetch_all(self.db.read()).await?;
        rows.iter().map(|row| Ok(json::read::<StoredCommand>(row)?.read())).collect()
    }

    async fn commands(&self, condition: &str, values: &[&str], limit: i64) -> sqlx::Result<Vec<CommandRead>> {
        if !values.iter().all(|id| can_exist(id)) {
            return Ok(Vec::new());
        }
        let row = json::row(self.engine(), COMMAND_READ);
        let text = format!("SELECT {row}, payload FROM run_command WHERE {condition} LIMIT {limit}");
        let query = sqlx::query_as::<Any, (String, String)>(AssertSqlSafe(text));
        let query = values.iter().fold(query, |query, value| query.bind((*value).to_owned()));
        let rows = query.fetch_all(self.db.read()).await?;
        let read = |(row, payload): (String, String)| {
            let payload = RawValue::from_string(payload).map_err(damaged)?;
            Ok(CommandRead { row: json::read::<StoredCommand>(&row)?.read(), payload })
        };
        rows.into_iter().map(read).collect()
    }

    pub async fn approval(&self, run: &str, id: &str) -> sqlx::Result<Option<ApprovalRow>> {
        if !can_exist(id) {
            return Ok(None);
        }
        let row = json::row(self.engine(), APPROVAL_READ);
        let text = format!("SELECT {row} FROM run_approval WHERE run_id = $1 AND approval_id = $2");
        let query = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text));
        let found = query.bind(run.to_owned()).bind(id.to_owned()).fetch_optional(self.db.read()).await?;
        found.map(|row| json::read::<StoredApproval>(&row)?.read()).transpose()
    }

    pub async fn job(&self, run: &str, id: &str) -> sqlx::Result<Option<JobRow>> {
        Ok(self.jobs_where("run_id = $1 AND id = $2", &[run, id]).await?.into_iter().next())
    }

    /// The newest jobs of a run, oldest first.
    pub async fn jobs(&self, run: &str, command: Option<&str>) -> sqlx::Result<Vec<JobRow>> {
        let mut jobs = match command {
            Some(command) => self.jobs_where("run_id = $1 AND command_id = $2", &[run, command]).await?,
            None => self.jobs_where("run_id = $1", &[run]).await?,
        };
        jobs.reverse();
        Ok(jobs)
    }

    /// The jobs whose runners a server looks after, and that have not ended.
    pub async fn jobs_of_owner(&self, owner: &str) -> sqlx::Result<Vec<JobRow>> {
        let row = json::row(self.engine(), JOB_READ);
        let text = format!("SELECT {row} FROM run_job WHERE server = $1 AND ended_at IS NULL ORDER BY id");
        let query = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text)).bind(owner.to_owned());
        let rows = query.fetch_all(self.db.read()).await?;
        rows.iter().map(|row| Ok(json::read::<StoredJob>(row)?.read())).collect()
    }

    /// Those of them that have ended, by their logs.
    pub async fn ended_jobs_of_owner(
        &self,
        owner: &str,
        logs: &BTreeSet<String>,
    ) -> sqlx::Result<Vec<JobRow>> {
        let (row, found) = (json::row(self.engine(), JOB_READ), self.is_one_of("log_ref", 2));
        let text = format!(
            "SELECT {row} FROM run_job WHERE server = $1 AND ended_at IS NOT NULL AND {found} ORDER BY id"
        );
        let query = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text));
        let rows = query.bind(owner.to_owned()).bind(json::text(logs)?).fetch_all(self.db.read()).await?;
        rows.iter().map(|row| Ok(json::read::<StoredJob>(row)?.read())).collect()
    }

    /// Which of these jobs have ended before this time.
    pub async fn ended_jobs(&self, ids: &BTreeSet<String>, before: i64) -> sqlx::Result<Vec<String>> {
        let text = format!("SELECT id FROM run_job WHERE {} AND ended_at < $2", self.is_one_of("id", 1));
        let query = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text));
        query.bind(json::text(ids)?).bind(before).fetch_all(self.db.read()).await
    }

    async fn jobs_where(&self, condition: &str, values: &[&str]) -> sqlx::Result<Vec<JobRow>> {
        if !values.iter().all(|id| can_exist(id)) {
            return Ok(Vec::new());
        }
        let row = json::row(self.engine(), JOB_READ);
        let text = format!("SELECT {row} FROM run_job WHERE {condition} ORDER BY id DESC LIMIT 200");
        let query = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text));
        let query = values.iter().fold(query, |query, value| query.bind((*value).to_owned()));
        let rows = query.fetch_all(self.db.read()).await?;
        rows.iter().map(|row| Ok(json::read::<StoredJob>(row)?.read())).collect()
    }

    /// The attempt of a registered runner of a run.
    pub async fn runner(&self, run: &str, id: &str) -> sqlx::Result<Option<String>> {
        if !can_exist(id) {
            return Ok(None);
        }
        sqlx::query_scalar("SELECT attempt_id FROM run_runner WHERE run_id = $1 AND id = $2")
            .bind(run.to_owned())
            .bind(id.to_owned())
            .fetch_optional(self.db.read())
            .await
    }

    pub async fn count_runners(&self, run: &str) -> sqlx::Result<i64> {
        sqlx::query_scalar("SELECT COUNT(*) FROM run_runner WHERE run_id = $1")
            .bind(run.to_owned())
            .fetch_one(self.db.read())
            .await
    }
}
