//! What a call does to a run. A refusal changes nothing, but for the note that a runner was told to wait.

mod approvals;
mod commands;
mod ends;
mod jobs;
mod log;
mod processes;
mod runners;
mod runs;
mod threads;

pub(crate) use runners::{cancel_flags, holds_lease};
pub(crate) use runs::DEFAULT_LEASE_MS;
pub(crate) use threads::turn_key;

use super::call::{CallAccess, NewRun, RunAnswer, RunCall, RunOperation};
use super::run::{LoadedRun, RunLimits, RunRow, Runs, SessionRow};
use super::thread::NewThreadSession;
use crate::error::Error;
use proto_schemas::requests::run::TerminalStatus;

/// Decides on one call after the other; each sees what those before it have changed.
pub(crate) fn decide(
    runs: &mut Runs,
    limits: &RunLimits,
    call: RunCall,
    now: i64,
) -> Result<RunAnswer, Error> {
    let RunCall { run_id, access, operation } = call;
    if let RunOperation::Create(new) = operation {
        return create(runs, limits, run_id, *new, now);
    }
    let mut work = RunDecision::take(runs, limits, &run_id, &access, now)?;
    let answer = match operation {
        RunOperation::Create(_) | RunOperation::Sweep => {
            work.sweep();
            Ok(RunAnswer::Swept)
        }
        RunOperation::AddCommand(new) => work.add_command(new),
        RunOperation::CancelRun { reason } => work.cancel_run(reason),
        RunOperation::CancelCommand { command_id, reason } => work.cancel_command(&command_id, reason),
        RunOperation::AddJob(new) => work.add_job(*new),
        RunOperation::Approve { approval_id, command_id, decision, answer, by } => {
            work.approve(&approval_id, command_id.as_deref(), decision, answer, by)
        }
        RunOperation::Resume { answers, part } => work.resume(answers, *part),
        RunOperation::FailCommand { command_id, failure } => work.fail_command(&command_id, failure),
        RunOperation::Register(new) => work.register(*new),
        RunOperation::Claim { runner_id, attempt, lease_ms } => work.claim(&runner_id, &attempt, lease_ms),
        RunOperation::Renew { holder, lease_ms } => work.renew(&holder, lease_ms),
        RunOperation::Release { holder } => work.release(&holder),
        RunOperation::Append { holder, events } => work.append(&holder, events),
        RunOperation::Acknowledge { holder, command_id } => work.acknowledge(&holder, &command_id),
        RunOperation::ReportCommand { holder, command_id, report, back_end } => {
            work.report_command(&holder, &command_id, report, back_end)
        }
        RunOperation::ReportRun { holder, report } => work.report_run(&holder, report),
        RunOperation::Started { job_id, process } => work.process_started(&job_id, process),
        RunOperation::End { status, failure } => work.end_with_task(status, failure),
        RunOperation::ProcessEnded { job_id, failed, message } => {
            work.process_ended(&job_id, failed, message)
        }
    };
    work.put_back();
    answer
}

/// A new run, and the turn of the conversation that it was created for. If the turn is refused, there is no run.
fn create(
    runs: &mut Runs,
    limits: &RunLimits,
    run_id: String,
    mut new: NewRun,
    now: i64,
) -> Result<RunAnswer, Error> {
    let Some(thread) = new.thread.take() else { return runs::create(runs, run_id, new, now) };
    let key = new.key.clone().map(|key| (new.tenant.clone(), key));
    let session = thread.session.clone();
    // What there was of the session, if the conversation has had a run before.
    let before = new.session.as_ref().and_then(|id| runs.sessions.get(id).cloned());
    let was_changed = before.as_ref().is_some_and(|row| runs.changed_sessions.contains(&row.id));
    if let Some(session) = &session {
        let row = SessionRow::new(session);
        runs.sessions.insert(row.id.clone(), row);
    }
    let created = runs::create(runs, run_id.clone(), new, now);
    let is_new = matches!(created, Ok(RunAnswer::Run { created: true, .. }));
    let answer = match is_new {
        true => {
            let mut work = RunDecision::take(runs, limits, &run_id, &CallAccess::System, now)?;
            let begun = work.begin_thread(*thread);
            work.put_back();
            begun
        }
        false => created,
    };
    if !is_new || answer.is_err() {
        forget(runs, &run_id, session.as_ref(), key.filter(|_| is_new));
        if let Some(row) = before {
            if !was_changed {
                runs.changed_sessions.remove(&row.id);
            }
            runs.sessions.insert(row.id.clone(), row);
        }
    }
    answer
}

/// What was decided of a run is not written.
fn forget(runs: &mut Runs, run_id: &str, session: Option<&NewThreadSession>, key: Option<(String, String)>) {
    if let Some(run) = runs.runs.remove(run_id) {
        if let Some(thread) = &run.thread {
            runs.threads.new_threads.retain(|id| *id != thread.id);
        }
        if run.row.active {
            *runs.active.entry(run.row.tenant).or_default() -= 1;
        }
    }
    runs.new_runs.retain(|new| new.id != run_id);
    if let Some(session) = session {
        runs.sessions.remove(&session.id);
        runs.changed_sessions.remove(&session.id);
        runs.threads.new_sessions.retain(|new| new.id != session.id);
    }
    if let Some(key) = key {
        runs.keys.remove(&key);
    }
}

/// What is refused because the run has ended, with the reason of its end.
pub(crate) fn run_ended(row: &RunRow) -> Error {
    let status = row.terminal().unwrap_or(TerminalStatus::Completed);
    Error::RunEnded { id: row.id.clone(), status, failure_kind: row.failure.kind.clone() }
}

/// A run while a call changes it. It is taken out of the others meanwhile, so that both can be changed.
struct RunDecision<'a> {
    run: LoadedRun,
    runs: &'a mut Runs,
    limits: &'a RunLimits,
    now: i64,
}

impl<'a> RunDecision<'a> {
    /// The run, if it exists for the caller.
    fn take(
        runs: &'a mut Runs,
        limits: &'a RunLimits,
        run_id: &str,
        access: &CallAccess,
        now: i64,
    ) -> Result<RunDecision<'a>, Error> {
        let visible = |run: &LoadedRun| match access {
            CallAccess::System => true,
            CallAccess::Of(access) => access.sees(&run.row.tenant, &run.row.id),
        };
        if !runs.runs.get(run_id).is_some_and(visible) {
            return Err(Error::NotFound(format!("run {run_id}")));
        }
        let mut run = runs.runs.remove(run_id).ok_or_else(|| Error::NotFound(format!("run {run_id}")))?;
        run.not_ahead_of(now);
        Ok(RunDecision { run, runs, limits, now })
    }

    fn put_back(mut self) {
        if self.run.changed {
            let active = self.run.is_active(self.now, self.limits.started_at);
            if active != self.run.row.active {
                self.run.row.active = active;
                let count = self.runs.active.entry(self.run.row.tenant.clone()).or_default();
                *count += if active { 1 } else { -1 };
            }
            self.run.row.due_at = self.run.due_at(self.limits.started_at);
        }
        self.runs.runs.insert(self.run.row.id.clone(), self.run);
    }

    fn touch(&mut self) {
        self.run.changed = true;
        self.run.row.updated_at = self.run.row.updated_at.max(self.now);
    }

    fn lease_is_live(&self) -> bool {
        self.run.row.lease.is_live(self.now, self.limits.started_at)
    }

    /// Refuses what a run that has ended does not take any more.
    fn is_open(&self) -> Result<(), Error> {
        match self.run.row.terminal() {
            None => Ok(()),
            Some(_) => Err(run_ended(&self.run.row)),
        }
    }

    fn command_not_found(id: &str) -> Error {
        Error::NotFound(format!("command {id}"))
    }
}
