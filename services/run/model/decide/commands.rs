//! Commands: submitted and cancelled by a back end, taken and ended by a runner.

use super::RunDecision;
use crate::error::Error;
use crate::model::call::{Holder, NewCommand, RunAnswer, RunnerReport};
use crate::model::run::{CommandRow, Failure, NewCommandRow, SessionState};
use kernel::{Kept, Payer};
use proto_schemas::requests::run::{CommandState, CommandType, RunStatus, TerminalStatus};
use proto_schemas::requests::runner::ReportedStatus;

impl RunDecision<'_> {
    pub fn add_command(&mut self, new: NewCommand) -> Result<RunAnswer, Error> {
        let run_id = self.run.row.id.clone();
        if let Some(key) = &new.key {
            let known = self.run.commands.values().find(|command| command.key.as_ref() == Some(key));
            if let Some(known) = known {
                return match known.payload_hash == new.payload_hash {
                    true => Ok(RunAnswer::Command { command_id: known.id.clone(), created: false }),
                    false => {
                        Err(Error::Idempotency { member: "existingCommandId", existing: known.id.clone() })
                    }
                };
            }
        }
        self.is_open()?;
        if self.run.row.cancel_at.is_some() {
            return Err(Error::RunEnded {
                id: run_id,
                status: TerminalStatus::Cancelled,
                failure_kind: Some("cancelled".to_owned()),
            });
        }
        if new.is_turn() {
            self.has_space_for_turn()?;
        }
        self.has_space_for_command(new.is_turn())?;
        let payer = Payer::tenant(&self.run.row.tenant);
        let more = Kept::rows(1, new.payload.get().len());
        self.runs.kept.charge(&payer, more).map_err(kernel::ChargeError::Full)?;

        if let Some(turn) = new.turn {
            self.add_turn(&new.id, *turn)?;
        }
        self.run.row.last_command += 1;
        let command = CommandRow {
            id: new.id.clone(),
            run_id: run_id.clone(),
            seq: self.run.row.last_command,
            kind: new.kind,
            state: CommandState::Pending,
            payload_hash: new.payload_hash,
            key: new.key,
            target: None,
            acknowledged_at: None,
            acknowledged_epoch: None,
            failure: Failure::default(),
            created_at: self.now,
            updated_at: self.now,
            cancel_at: None,
            ended_at: None,
        };
        self.run.commands.insert(new.id.clone(), command);
        let written = NewCommandRow { run_id: run_id.clone(), id: new.id.clone(), payload: new.payload };
        self.runs.new_commands.push(written);
        self.touch();
        let of_session = new.id.clone();
        self.change_session(|session| {
            session.state = SessionState::Running;
            session.active_command = Some(of_session.clone());
            session.last_command = Some(of_session);
        });
        Ok(RunAnswer::Command { command_id: new.id, created: true })
    }

    /// The turns of conversations are limited by agent: one must not use up what the tenant of all of them has.
    fn has_space_for_command(&self, is_turn: bool) -> Result<(), Error> {
        let (waiting, most) = (self.run.open_commands().count(), self.limits.waiting_commands);
        let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
        if waiting >= most {
            return Err(Error::Limit {
                sentence: format!("a run may have {most} waiting commands at most"),
                scope: "run.commands",
                limit: most,
                held: waiting,
            });
        }
        let active = self.runs.active.get(&self.run.row.tenant).copied().unwrap_or_default();
        if !is_turn && !self.run.row.active && active >= self.limits.active_runs {
            return Err(Error::Limit {
                sentence: format!("a tenant may have {} active runs at most", self.limits.active_runs),
                scope: "tenant.runs",
                limit: self.limits.active_runs,
                held: active,
            });
        }
        Ok(())
    }

    pub fn acknowledge(&mut self, holder: &Holder, command_id: &str) -> Result<RunAnswer, Error> {
        self.is_open()?;
        self.has_lease(holder)?;
        let target = self.newest_taken_turn(command_id);
        let now = self.now;
        let command = self.command(command_id)?;
        is_open(command)?;
        let answer = RunAnswer::Command { command_id: command_id.to_owned(), created: false };
        if command.is_taken() && command.acknowledged_epoch == Some(holder.epoch) {
            return Ok(answer);
        }
        if command.state == CommandState::Pending {
            command.state = CommandState::Acknowledged;
            command.acknowledged_at = Some(now);
            if command.kind == CommandType::Steer {
                command.target = target;
            }
        }
        command.acknowledged_epoch = Some(holder.epoch);
        self.command_changed(command_id);
        Ok(answer)
    }

    /// Guidance is for the newest turn that a runner works on.
    fn newest_taken_turn(&self, but: &str) -> Option<String> {
        let turns = self
            .run
            .open_commands()
            .filter(|command| command.kind == CommandType::Turn && command.is_taken() && command.id != but);
        turns.max_by_key(|command| command.seq).map(|command| command.id.clone())
    }

    pub fn report_command(
        &mut self,
        holder: &Holder,
        command_id: &str,
        report: RunnerReport,
        back_end: Option<String>,
    ) -> Result<RunAnswer, Error> {
        let run_cancel = self.run.row.cancel_at.is_some();
        let command = self.command(command_id)?;
        let wanted = report.status.terminal();
        if let Some(ended) = command.terminal() {
            return match wanted == Some(ended) {
                true => Ok(RunAnswer::Reported { ended: false }),
                false => Err(Error::Illegal(format!(
                    "command {command_id} is already terminal: {}",
                    state_word(command.state)
                ))),
            };
        }
        let (state, cancels) = (command.state, command.cancel_at.is_some() || run_cancel);
        self.is_open()?;
        self.has_lease(holder)?;
        if state == CommandState::Pending {
            return Err(Error::Illegal(format!("command {command_id} was not acknowledged")));
        }
        if report.status == ReportedStatus::Cancelled && !cancels {
            return Err(Error::Illegal(format!("nobody asked to cancel command {command_id}")));
        }
        match wanted {
            None => self.command_runs(command_id),
            Some(status) => {
                let failure = failure_of(status, report);
                self.end_command(command_id, status, failure)?;
                if back_end.is_some() {
                    self.change_session(|session| session.back_end = back_end);
                }
                self.end_cancelled_run()?;
            }
        }
        Ok(RunAnswer::Reported { ended: wanted.is_some() })
    }

    /// A command of this run.
    pub(super) fn command(&mut self, id: &str) -> Result<&mut CommandRow, Error> {
        self.run.commands.get_mut(id).ok_or_else(|| Self::command_not_found(id))
    }

    pub(super) fn command_changed(&mut self, id: &str) {
        let now = self.now;
        if let Some(command) = self.run.commands.get_mut(id) {
            command.updated_at = command.updated_at.max(now);
        }
        self.run.changed_commands.insert(id.to_owned());
        self.touch();
    }

    /// A runner has begun with it, and so the run goes on.
    pub(super) fn command_runs(&mut self, id: &str) {
        let Some(command) = self.run.commands.get_mut(id) else { return };
        if command.state == CommandState::Acknowledged {
            command.state = CommandState::Running;
            self.command_changed(id);
            self.turn_begins(id);
        }
        if self.run.row.status != RunStatus::Running {
            self.run.row.status = RunStatus::Running;
            self.touch();
        }
    }
}

/// Refuses what a command that has ended does not take any more.
pub(super) fn is_open(command: &CommandRow) -> Result<(), Error> {
    match command.terminal() {
        None => Ok(()),
        Some(status) => Err(Error::CommandEnded {
            id: command.id.clone(),
            status,
            failure_kind: command.failure.kind.clone(),
        }),
    }
}

/// Why it ended so, in the words of the report or of its status.
pub(super) fn failure_of(status: TerminalStatus, report: RunnerReport) -> Failure {
    let kind = report.failure_kind.or_else(|| match status {
        TerminalStatus::Failed => Some("backend-failed".to_owned()),
        TerminalStatus::Cancelled => Some("cancelled".to_owned()),
        TerminalStatus::Completed | TerminalStatus::Blocked => None,
    });
    match status {
        TerminalStatus::Completed => Failure::default(),
        _ => Failure { kind, message: report.failure_message },
    }
}

pub(crate) fn state_word(state: CommandState) -> &'static str {
    match state {
        CommandState::Pending => "pending",
        CommandState::Acknowledged => "acknowledged",
        CommandState::Running => "running",
        CommandState::Completed => "completed",
        CommandState::Failed => "failed",
        CommandState::Blocked => "blocked",
        CommandState::Cancelled => "cancelled",
    }
}
