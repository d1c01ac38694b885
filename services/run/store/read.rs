//! Reads single rows, as they are shown.

use super::Store;
use super::row::{
    APPROVAL_READ, COMMAND_READ, JOB_READ, RUN_READ, StoredApproval, StoredCommand, StoredJob, StoredRun,
    damaged,
};
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
        let found = self.runs("WHERE id = $1", &[id], 1).await?;
        Ok(found.into_iter().next())
    }

    /// The runs of some tenants, newest first, before the run at which the page before ended.
    pub async fn runs_of(
        &self,
        tenants: Option<&BTreeSet<String>>,
        open: bool,
        before: Option<&str>,
        limit: i64,
    ) -> sqlx::Result<Vec<RunFacts>> {
        let names = json::text(&tenants)?;
        let ended = if open { "AND ended_at IS NULL" } else { "" };
        let of_tenants = match tenants {
            Some(_) => format!("tenant IN {}", json::texts(self.engine(), 2)),
            None => "$2 = 'null'".to_owned(),
        };
        let condition = format!("WHERE id < $1 AND {of_tenants} {ended} ORDER BY id DESC");
        // After every id.
        self.runs(&condition, &[before.unwrap_or("~"), &names], limit).await
    }

    async fn runs(&self, condition: &str, values: &[&str], limit: i64) -> sqlx::Result<Vec<RunFacts>> {
        let row = json::row(self.engine(), RUN_READ);
        let text = format!("SELECT {row}, fixed FROM run {condition} LIMIT {limit}");
        let query = sqlx::query_as::<Any, (String, String)>(AssertSqlSafe(text));
        let query = values.iter().fold(query, |query, value| query.bind((*value).to_owned()));
        let rows = query.fetch_all(self.db.read()).await?;
        rows.into_iter()
            .map(|(row, fixed)| Ok(RunFacts { row: json::read::<StoredRun>(&row)?.read(), fixed }))
            .collect()
    }

    pub async fn command(&self, id: &str) -> sqlx::Result<Option<CommandRead>> {
        Ok(self.commands("id = $1", &[id], 1).await?.into_iter().next())
    }

    pub async fn newest_command(&self, run: &str) -> sqlx::Result<Option<CommandRead>> {
        Ok(self.commands("run_id = $1 ORDER BY seq DESC", &[run], 1).await?.into_iter().next())
    }

    /// The run that a command belongs to, which never changes.
    pub async fn run_of_command(&self, id: &str) -> sqlx::Result<Option<String>> {
        sqlx::query_scalar("SELECT run_id FROM run_command WHERE id = $1")
            .bind(id.to_owned())
            .fetch_optional(self.db.read())
            .await
    }

    /// Commands of a run that have not ended, in their order.
    pub async fn open_commands(&self, run: &str, after: i64, limit: i64) -> sqlx::Result<Vec<CommandRead>> {
        let condition = format!("run_id = $1 AND seq > {after} AND ended_at IS NULL ORDER BY seq");
        self.commands(&condition, &[run], limit).await
    }

    /// Commands of a run, the newest first.
    pub async fn commands_before(&self, run: &str, seq: i64, limit: i64) -> sqlx::Result<Vec<CommandRead>> {
        self.commands(&format!("run_id = $1 AND seq < {seq} ORDER BY seq DESC"), &[run], limit).await
    }

    async fn commands(&self, condition: &str, values: &[&str], limit: i64) -> sqlx::Result<Vec<CommandRead>> {
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

    /// Questions of a run that nobody has answered yet.
    pub async fn open_approvals(&self, run: &str) -> sqlx::Result<Vec<ApprovalRow>> {
        self.approvals("run_id = $1 AND settled_at IS NULL AND decision IS NULL", &[run]).await
    }

    /// Answers that are not in the log yet.
    pub async fn answered_approvals(&self, run: &str) -> sqlx::Result<Vec<ApprovalRow>> {
        self.approvals("run_id = $1 AND settled_at IS NULL AND decision IS NOT NULL", &[run]).await
    }

    pub async fn approval(&self, run: &str, id: &str) -> sqlx::Result<Option<ApprovalRow>> {
        Ok(self.approvals("run_id = $1 AND approval_id = $2", &[run, id]).await?.into_iter().next())
    }

    async fn approvals(&self, condition: &str, values: &[&str]) -> sqlx::Result<Vec<ApprovalRow>> {
        let row = json::row(self.engine(), APPROVAL_READ);
        let text = format!(
            "SELECT {row} FROM run_approval WHERE {condition} ORDER BY created_at, approval_id LIMIT 100"
        );
        let query = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text));
        let query = values.iter().fold(query, |query, value| query.bind((*value).to_owned()));
        let rows = query.fetch_all(self.db.read()).await?;
        rows.iter().map(|row| json::read::<StoredApproval>(row)?.read()).collect()
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

    async fn jobs_where(&self, condition: &str, values: &[&str]) -> sqlx::Result<Vec<JobRow>> {
        let row = json::row(self.engine(), JOB_READ);
        let text = format!("SELECT {row} FROM run_job WHERE {condition} ORDER BY id DESC LIMIT 200");
        let query = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text));
        let query = values.iter().fold(query, |query, value| query.bind((*value).to_owned()));
        let rows = query.fetch_all(self.db.read()).await?;
        rows.iter().map(|row| Ok(json::read::<StoredJob>(row)?.read())).collect()
    }

    /// The attempt of a registered runner of a run.
    pub async fn runner(&self, run: &str, id: &str) -> sqlx::Result<Option<String>> {
        sqlx::query_scalar("SELECT attempt_id FROM run_runner WHERE run_id = $1 AND id = $2")
            .bind(run.to_owned())
            .bind(id.to_owned())
            .fetch_optional(self.db.read())
            .await
    }

    pub async fn insert_runner(&self, runner: &NewRunnerRow<'_>) -> sqlx::Result<()> {
        let insert = sqlx::query(
            "INSERT INTO run_runner (id, payer, run_id, attempt_id, placement, body, registered_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(runner.id.to_owned())
        .bind(runner.payer.to_owned())
        .bind(runner.run_id.to_owned())
        .bind(runner.attempt.to_owned())
        .bind(runner.placement.to_owned())
        .bind(runner.body.to_owned())
        .bind(runner.registered_at)
        .execute(self.db.write_alone());
        self.db.counted(insert).await?;
        Ok(())
    }

    pub async fn count_runners(&self, run: &str) -> sqlx::Result<i64> {
        sqlx::query_scalar("SELECT COUNT(*) FROM run_runner WHERE run_id = $1")
            .bind(run.to_owned())
            .fetch_one(self.db.read())
            .await
    }
}

/// A runner that registers.
pub(crate) struct NewRunnerRow<'a> {
    pub id: &'a str,
    pub payer: &'a str,
    pub run_id: &'a str,
    pub attempt: &'a str,
    pub placement: &'a str,
    pub body: &'a str,
    pub registered_at: i64,
}
