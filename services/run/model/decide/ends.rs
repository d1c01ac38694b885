//! Ends: of commands and runs, by cancel, by report, by time.

use super::RunDecision;
use super::commands::{failure_of, is_open};
use crate::error::Error;
use crate::model::call::{Holder, RunAnswer, RunnerReport};
use crate::model::run::{Failure, SessionRow, SessionState, TIMEOUT_GRACE_MS};
use proto_schemas::requests::run::{CommandState, RunEventType, RunStatus, TerminalStatus};
use proto_schemas::requests::runner::ReportedStatus;
use serde_json::json;

impl RunDecision<'_> {
    /// What waits ends at once; what a runner works on ends when the runner has confirmed it, or has lost its lease.
    pub fn cancel_run(&mut self, reason: Option<String>) -> Result<RunAnswer, Error> {
        let answer = RunAnswer::Run { run_id: self.run.row.id.clone(), created: false };
        if self.run.row.terminal().is_some() {
            return Ok(answer);
        }
        if self.run.row.cancel_at.is_none() {
            self.run.row.cancel_at = Some(self.now);
            self.run.row.failure = Failure::cancelled(reason.as_deref());
            self.touch();
        }
        for id in self.run.open_ids() {
            let waits = self.command(&id)?.state == CommandState::Pending;
            let failure = Failure::cancelled(reason.as_deref());
            match waits {
                true => self.end_command(&id, TerminalStatus::Cancelled, failure)?,
                false => self.ask_to_cancel(&id, reason.as_deref())?,
            }
        }
        self.end_cancelled_run()?;
        Ok(answer)
    }

    pub fn cancel_command(&mut self, id: &str, reason: Option<String>) -> Result<RunAnswer, Error> {
        let answer = RunAnswer::Command { command_id: id.to_owned(), created: false };
        let state = self.command(id)?.state;
        match state {
            CommandState::Pending => {
                self.end_command(id, TerminalStatus::Cancelled, Failure::cancelled(reason.as_deref()))?;
            }
            CommandState::Acknowledged | CommandState::Running => {
                self.ask_to_cancel(id, reason.as_deref())?
            }
            CommandState::Completed
            | CommandState::Failed
            | CommandState::Blocked
            | CommandState::Cancelled => {}
        }
        Ok(answer)
    }

    /// With a lease its runner is asked; without one nobody would answer.
    fn ask_to_cancel(&mut self, id: &str, reason: Option<&str>) -> Result<(), Error> {
        if !self.lease_is_live() {
            return self.end_command(id, TerminalStatus::Cancelled, Failure::cancelled(reason));
        }
        let now = self.now;
        let command = self.command(id)?;
        if command.cancel_at.is_none() {
            command.cancel_at = Some(now);
            command.failure = Failure::cancelled(reason);
            self.command_changed(id);
        }
        Ok(())
    }

    /// A run whose cancel was requested ends with the last of its commands.
    pub(super) fn end_cancelled_run(&mut self) -> Result<(), Error> {
        let cancelled = self.run.row.cancel_at.is_some() && self.run.row.terminal().is_none();
        if cancelled && self.run.open_commands().next().is_none() {
            let failure = Failure { kind: Some("cancelled".to_owned()), ..self.run.row.failure.clone() };
            self.end_run(TerminalStatus::Cancelled, failure)?;
        }
        Ok(())
    }

    /// Ends a command and says so in the log, in the same commit.
    pub(super) fn end_command(
        &mut self,
        id: &str,
        status: TerminalStatus,
        failure: Failure,
    ) -> Result<(), Error> {
        let now = self.now;
        let command = self.command(id)?;
        is_open(command)?;
        command.state = match status {
            TerminalStatus::Completed => CommandState::Completed,
            TerminalStatus::Failed => CommandState::Failed,
            TerminalStatus::Blocked => CommandState::Blocked,
            TerminalStatus::Cancelled => CommandState::Cancelled,
        };
        command.failure = failure.clone();
        command.ended_at = Some(now);
        self.command_changed(id);
        self.settle_approvals(Some(id));
        self.log_end(Some(id), status, &failure, "command")?;
        if self.run.row.status == RunStatus::Running && !self.run.has_taken_commands() {
            self.run.row.status = RunStatus::Claimed;
        }
        let next = self.run.open_ids().into_iter().next();
        self.change_session(|session| {
            session.version += 1;
            session.state = match next {
                Some(_) => SessionState::Running,
                None => SessionState::Terminal,
            };
            session.active_command = next;
        });
        Ok(())
    }

    /// Ends the run, and before it all of its commands in the same way.
    pub(super) fn end_run(&mut self, status: TerminalStatus, failure: Failure) -> Result<(), Error> {
        for id in self.run.open_ids() {
            self.end_command(&id, status, failure.clone())?;
        }
        self.settle_approvals(None);
        self.log_end(None, status, &failure, "run")?;
        self.run.row.status = match status {
            TerminalStatus::Completed => RunStatus::Completed,
            TerminalStatus::Failed => RunStatus::Failed,
            TerminalStatus::Blocked => RunStatus::Blocked,
            TerminalStatus::Cancelled => RunStatus::Cancelled,
        };
        self.run.row.failure = failure;
        self.run.row.ended_at = Some(self.now);
        self.end_jobs(status == TerminalStatus::Failed);
        self.touch();
        self.change_session(|session| {
            session.version += 1;
            session.state = SessionState::Terminal;
            session.active_run = None;
            session.active_command = None;
        });
        Ok(())
    }

    pub fn report_run(&mut self, holder: &Holder, report: RunnerReport) -> Result<RunAnswer, Error> {
        let answer = RunAnswer::Run { run_id: self.run.row.id.clone(), created: false };
        let wanted = report.status.terminal();
        if let Some(ended) = self.run.row.terminal() {
            return match wanted == Some(ended) && self.run.row.lease.epoch == holder.epoch {
                true => Ok(answer),
                false => Err(self.is_open().err().unwrap_or_else(|| Error::Illegal(String::new()))),
            };
        }
        self.has_lease(holder)?;
        let Some(status) = wanted else {
            if self.run.row.status == RunStatus::Claimed {
                self.run.row.status = RunStatus::Running;
                self.touch();
            }
            return Ok(answer);
        };
        let open = self.run.open_commands().count();
        if status == TerminalStatus::Completed && open > 0 {
            return Err(Error::Illegal(format!("the run has {open} commands that have not ended")));
        }
        if report.status == ReportedStatus::Cancelled && self.run.row.cancel_at.is_none() {
            return Err(Error::Illegal("nobody asked to cancel the run".to_owned()));
        }
        self.end_run(status, failure_of(status, report))?;
        Ok(answer)
    }

    /// The run of a task has nothing more to do. What is left open, guidance that came late, is cancelled.
    pub fn end_with_task(&mut self, status: TerminalStatus, failure: Failure) -> Result<RunAnswer, Error> {
        let answer = RunAnswer::Run { run_id: self.run.row.id.clone(), created: false };
        if self.run.row.terminal().is_some() {
            return Ok(answer);
        }
        for id in self.run.open_ids() {
            let late = Failure::cancelled(Some("the task has ended"));
            self.end_command(&id, TerminalStatus::Cancelled, late)?;
        }
        self.end_run(status, failure)?;
        Ok(answer)
    }

    /// What the server ends by itself: a cancel that no runner will confirm, and a command long after its time-out.
    pub fn sweep(&mut self) {
        // Where it is not due after all, the next look is at the time that is written now.
        self.run.changed = true;
        if self.run.due_at(self.limits.started_at).is_none_or(|due| due > self.now) {
            return;
        }
        let live = self.lease_is_live();
        let timeout = self.run.row.timeout_ms + TIMEOUT_GRACE_MS;
        for id in self.run.open_ids() {
            let Some(command) = self.run.commands.get(&id) else { continue };
            let cancels = command.cancel_at.is_some() || self.run.row.cancel_at.is_some();
            let late = command.acknowledged_at.is_some_and(|at| at + timeout <= self.now);
            let ended = match (cancels && !live, late) {
                (true, _) => {
                    let reason = command.failure.message.clone();
                    self.end_command(&id, TerminalStatus::Cancelled, Failure::cancelled(reason.as_deref()))
                }
                (false, true) => {
                    let failure =
                        Failure::of("backend-timeout", "the command did not end within its time-out");
                    self.end_command(&id, TerminalStatus::Failed, failure)
                }
                (false, false) => Ok(()),
            };
            if let Err(error) = ended {
                tracing::warn!("a command could not be ended: {error}");
            }
        }
        if let Err(error) = self.end_cancelled_run() {
            tracing::warn!("a cancelled run could not be ended: {error}");
        }
    }

    /// Nobody waits for answers of what has ended.
    fn settle_approvals(&mut self, command: Option<&str>) {
        for (id, approval) in &mut self.run.approvals {
            let ended = command.is_none_or(|command| approval.command_id == command);
            if approval.settled_at.is_none() && ended {
                approval.settled_at = Some(self.now);
                self.run.changed_approvals.insert(id.clone());
            }
        }
    }

    fn log_end(
        &mut self,
        command: Option<&str>,
        status: TerminalStatus,
        failure: &Failure,
        scope: &str,
    ) -> Result<(), Error> {
        let mut payload = json!({ "status": status, "scope": scope });
        if let Some(kind) = &failure.kind {
            payload["failureKind"] = kind.as_str().into();
        }
        if let Some(message) = &failure.message {
            payload["message"] = message.as_str().into();
        }
        self.log(RunEventType::TerminalStatus, command, &payload)
    }

    pub(super) fn change_session(&mut self, change: impl FnOnce(&mut SessionRow)) {
        let Some(id) = &self.run.row.session else { return };
        let Some(session) = self.runs.sessions.get_mut(id) else { return };
        change(session);
        session.updated_at = session.updated_at.max(self.now);
        self.runs.changed_sessions.insert(id.clone());
    }
}
