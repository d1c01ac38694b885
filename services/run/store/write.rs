//! Writes what a batch of calls has changed: one statement for each table that something changed in, all of them at once.

use super::Store;
use super::row::{
    APPROVAL, COMMAND, COMMAND_CHANGES, COMMAND_NEW, EVENT, JOB, RUN, RUN_CHANGES, RUN_NEW, RUNNER, SESSION,
    SESSION_CHANGES, StoredApproval, StoredCommand, StoredJob, StoredRun, StoredSession, TOKEN, TOKEN_END,
    WrittenCommand, WrittenRun, WrittenRunEvent, WrittenRunner, WrittenToken, WrittenTokenEnd,
};
use crate::model::run::{LoadedRun, Runs};
use kernel::Statements;
use kernel::json_rows::{self as json, Column};
use serde::Serialize;
use sqlx::AnyConnection;
use std::collections::HashSet;

impl Store {
    pub async fn write(&self, tx: &mut AnyConnection, runs: &Runs) -> sqlx::Result<()> {
        self.write_new_sessions(tx, &runs.threads).await?;
        let mut statements = Statements::new(self.engine());
        self.write_runs(&mut statements, runs)?;
        self.write_commands(&mut statements, runs)?;
        self.write_approvals(&mut statements, runs)?;
        self.write_jobs(&mut statements, runs)?;
        let sessions = runs.changed_sessions.iter().filter_map(|id| runs.sessions.get(id));
        let sessions: Vec<StoredSession> = sessions.map(StoredSession::of).collect();
        self.update(&mut statements, "run_session", &SESSION, &names(&SESSION, SESSION_CHANGES), &sessions)?;
        let tokens: Vec<WrittenToken<'_>> = runs.new_tokens.iter().map(WrittenToken::of).collect();
        statements.insert("run_token", &TOKEN, "", &tokens)?;
        self.write_token_ends(&mut statements, runs)?;
        let runners: Vec<WrittenRunner<'_>> = runs.new_runners.iter().map(WrittenRunner::of).collect();
        statements.insert("run_runner", &RUNNER, "", &runners)?;
        let events: Vec<WrittenRunEvent<'_>> = runs.events.iter().map(WrittenRunEvent::of).collect();
        statements.insert("run_event", &EVENT, "", &events)?;
        statements.execute(tx).await?;
        self.write_threads(tx, runs).await?;
        self.account.write(tx, &runs.kept).await
    }

    fn write_runs(&self, statements: &mut Statements, runs: &Runs) -> sqlx::Result<()> {
        let new: HashSet<&str> = runs.new_runs.iter().map(|new| new.id.as_str()).collect();
        let written = runs.new_runs.iter();
        let written = written.filter_map(|new| Some(WrittenRun::of(&runs.runs.get(&new.id)?.row, new)));
        let written: Vec<WrittenRun<'_>> = written.collect();
        let columns: Vec<Column> = RUN.iter().chain(&RUN_NEW).copied().collect();
        statements.insert("run", &columns, "", &written)?;
        let changed = changed(runs).filter(|run| !new.contains(run.row.id.as_str()));
        let changed: Vec<StoredRun> = changed.map(|run| StoredRun::of(&run.row)).collect();
        self.update(statements, "run", &RUN, &names(&RUN, RUN_CHANGES), &changed)
    }

    fn write_commands(&self, statements: &mut Statements, runs: &Runs) -> sqlx::Result<()> {
        let mut written = Vec::new();
        let mut new: HashSet<&str> = HashSet::new();
        for command in &runs.new_commands {
            if let Some(run) = runs.runs.get(&command.run_id)
                && let Some(row) = run.commands.get(&command.id)
            {
                written.push(WrittenCommand::of(row, &run.row.tenant, &command.payload));
                new.insert(&command.id);
            }
        }
        let columns: Vec<Column> = COMMAND.iter().chain(&COMMAND_NEW).copied().collect();
        statements.insert("run_command", &columns, "", &written)?;
        let changed = changed(runs).flat_map(|run| {
            let ids = run.changed_commands.iter().filter(|id| !new.contains(id.as_str()));
            ids.filter_map(|id| run.commands.get(id))
        });
        let changed: Vec<StoredCommand> = changed.map(StoredCommand::of).collect();
        self.update(statements, "run_command", &COMMAND, &names(&COMMAND, COMMAND_CHANGES), &changed)
    }

    fn write_approvals(&self, statements: &mut Statements, runs: &Runs) -> sqlx::Result<()> {
        let new: HashSet<(&str, &str)> =
            runs.new_approvals.iter().map(|(run, id)| (run.as_str(), id.as_str())).collect();
        let (mut written, mut changes) = (Vec::new(), Vec::new());
        for run in changed(runs) {
            for (id, row) in &run.approvals {
                let stored = || StoredApproval::of(row, &run.row.tenant);
                match new.contains(&(run.row.id.as_str(), id.as_str())) {
                    true => written.push(stored()),
                    false if run.changed_approvals.contains(id) => changes.push(stored()),
                    false => {}
                }
            }
        }
        statements.insert("run_approval", &APPROVAL, "", &written)?;
        if changes.is_empty() {
            return Ok(());
        }
        statements.add_rows(&APPROVAL, &changes, |parameter| {
            let rows = json::rows(self.engine(), parameter, &APPROVAL);
            format!(
                "UPDATE run_approval SET decision = given.decision, answer = given.answer,
                     answered_by = given.answered_by, answered_at = given.answered_at, settled_at = given.settled_at
                 FROM {rows} WHERE run_approval.run_id = given.run_id AND run_approval.approval_id = given.approval_id"
            )
        })
    }

    fn write_jobs(&self, statements: &mut Statements, runs: &Runs) -> sqlx::Result<()> {
        let new: HashSet<&str> = runs.new_jobs.iter().map(|(_, id)| id.as_str()).collect();
        let (mut written, mut changes) = (Vec::new(), Vec::new());
        for run in changed(runs) {
            for job in &run.jobs {
                let stored = || StoredJob::of(job, &run.row.tenant);
                match new.contains(job.id.as_str()) {
                    true => written.push(stored()),
                    false if run.changed_jobs.contains(&job.id) => changes.push(stored()),
                    false => {}
                }
            }
        }
        statements.insert("run_job", &JOB, "", &written)?;
        let may_change = ["runner_id", "registered_at", "ended_at", "failed", "pid", "pid_started"];
        self.update(statements, "run_job", &JOB, &may_change, &changes)
    }

    /// A token that has ended stays so, whatever its attempt does afterwards.
    fn write_token_ends(&self, statements: &mut Statements, runs: &Runs) -> sqlx::Result<()> {
        let ends = runs.token_ends.iter().map(|(attempt, end)| WrittenTokenEnd::of(attempt, *end));
        let ends: Vec<WrittenTokenEnd<'_>> = ends.collect();
        if ends.is_empty() {
            return Ok(());
        }
        statements.add_rows(&TOKEN_END, &ends, |parameter| {
            let rows = json::rows(self.engine(), parameter, &TOKEN_END);
            format!(
                "UPDATE run_token SET ends_at = given.ends_at FROM {rows}
                 WHERE run_token.run_id = given.run_id AND run_token.attempt_id = given.attempt_id
                     AND (run_token.ends_at IS NULL OR run_token.ends_at > given.decided_at)"
            )
        })
    }

    /// Of rows that were there, only these columns. The first column of a row names it.
    pub(super) fn update<R: Serialize>(
        &self,
        statements: &mut Statements,
        table: &str,
        columns: &[Column],
        changed: &[&str],
        rows: &[R],
    ) -> sqlx::Result<()> {
        let Some((id, _)) = columns.first() else { return Ok(()) };
        if rows.is_empty() {
            return Ok(());
        }
        let set: Vec<String> = changed.iter().map(|name| format!("{name} = given.{name}")).collect();
        statements.add_rows(columns, &rows, |parameter| {
            let rows = json::rows(self.engine(), parameter, columns);
            format!("UPDATE {table} SET {} FROM {rows} WHERE {table}.{id} = given.{id}", set.join(", "))
        })
    }
}

/// The names of the first columns, without that of the id.
fn names(columns: &[Column], count: usize) -> Vec<&'static str> {
    columns.iter().take(count).skip(1).map(|(name, _)| *name).collect()
}

fn changed(runs: &Runs) -> impl Iterator<Item = &LoadedRun> {
    runs.runs.values().filter(|run| run.changed)
}
