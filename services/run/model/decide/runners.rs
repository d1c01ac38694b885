//! Leases: who works on a run.

use super::RunDecision;
use crate::error::{Error, LeaseConflict};
use crate::model::call::{CancelFlags, Holder, LeaseAnswer, RunAnswer, lease_conflict};
use crate::model::run::{CommandRow, LeaseState, RUNNER_TOKEN_MS, RunRow, RunnerTokenEnd};
use kernel::{Kept, Payer, iso_ms};
use proto_schemas::requests::run::{RunEventType, RunStatus};
use proto_schemas::requests::runner::CancelScope;
use serde_json::json;

/// Runners that are remembered as refused: of more, those that asked first are forgotten, and noted again when they ask again.
const MOST_REFUSED: usize = 32;

impl RunDecision<'_> {
    /// One of several that ask gets it: whoever comes next sees the lease of the first.
    pub fn claim(&mut self, runner_id: &str, attempt: &str, lease_ms: i64) -> Result<RunAnswer, Error> {
        self.is_open()?;
        let lease = &self.run.row.lease;
        let mine = lease.runner.as_deref() == Some(runner_id) && lease.attempt.as_deref() == Some(attempt);
        if !mine && self.lease_is_live() {
            return Err(self.refuse_claim(runner_id, attempt)?);
        }
        let (before, now) = (lease.clone(), self.now);
        let recovered = !mine && before.runner.is_some() && !before.released;
        let same = mine && !before.released;
        self.run.row.lease = LeaseState {
            runner: Some(runner_id.to_owned()),
            attempt: Some(attempt.to_owned()),
            epoch: if same { before.epoch } else { before.epoch + 1 },
            length_ms: lease_ms,
            until: now + lease_ms,
            released: false,
            heartbeat_at: Some(now),
        };
        if before.attempt.as_deref() != Some(attempt) {
            self.replace_attempt(&before, attempt);
        }
        if self.run.row.status == RunStatus::Pending {
            self.run.row.status = RunStatus::Claimed;
        }
        self.touch();
        if recovered {
            let payload = json!({
                "phase": "claim-recovered", "runnerId": runner_id, "attemptId": attempt,
                "previousRunnerId": before.runner,
            });
            self.log(RunEventType::RunnerStatus, None, &payload)?;
        }
        let LeaseState { epoch, until, .. } = self.run.row.lease;
        Ok(RunAnswer::Claimed { epoch, until, recovered })
    }

    /// The attempt before has had its last lease: its jobs are over, and so are its tokens after a while. Those of the new one are open
    /// again, if they were to end.
    fn replace_attempt(&mut self, before: &LeaseState, attempt: &str) {
        let run = self.run.row.id.clone();
        let end = |ends_at| RunnerTokenEnd { decided_at: self.now, ends_at };
        self.runs.token_ends.insert((run.clone(), attempt.to_owned()), end(None));
        let Some(replaced) = before.attempt.clone() else { return };
        let last = if before.released { before.until } else { before.ends_at(self.limits.started_at) };
        let ends_at = end(Some(last + RUNNER_TOKEN_MS));
        self.runs.token_ends.insert((run, replaced.clone()), ends_at);
        self.end_jobs_of(&replaced, true);
    }

    /// Says so in the log the first time that this runner has to wait. Whoever has too much in it already waits without.
    fn refuse_claim(&mut self, runner_id: &str, attempt: &str) -> Result<Error, Error> {
        let known = self.run.row.refused.iter().any(|known| known == runner_id);
        let owner = self.run.row.lease.runner.clone();
        let payload = json!({
            "phase": "claim-waiting", "runnerId": runner_id, "attemptId": attempt, "ownerRunnerId": owner,
        });
        if !known && self.has_space_for_note(payload.to_string().len()) {
            let refused = &mut self.run.row.refused;
            refused.push(runner_id.to_owned());
            if refused.len() > MOST_REFUSED {
                refused.remove(0);
            }
            let about = (None, Some(attempt.to_owned()));
            self.log_of(RunEventType::RunnerStatus, about, &payload)?;
        }
        Ok(self.conflict())
    }

    /// Many runners that take turns could fill a log with notes that they had to wait.
    fn has_space_for_note(&mut self, bytes: usize) -> bool {
        let payer = Payer::tenant(&self.run.row.tenant);
        self.run.row.event_bytes < self.limits.event_bytes
            && self.runs.kept.charge(&payer, Kept::rows(1, bytes)).is_ok()
    }

    fn conflict(&self) -> Error {
        conflict(&self.run.row, self.now, self.limits.started_at)
    }

    /// Whether this runner has the lease, or had it and nobody has taken it since.
    pub(super) fn has_lease(&self, holder: &Holder) -> Result<(), Error> {
        holds_lease(&self.run.row, holder, self.now, self.limits.started_at)
    }

    pub fn renew(&mut self, holder: &Holder, lease_ms: Option<i64>) -> Result<RunAnswer, Error> {
        self.is_open()?;
        self.has_lease(holder)?;
        let now = self.now;
        let lease = &mut self.run.row.lease;
        lease.length_ms = lease_ms.unwrap_or(lease.length_ms);
        lease.until = now + lease.length_ms;
        lease.heartbeat_at = Some(now);
        self.run.changed = true;
        Ok(RunAnswer::Lease(LeaseAnswer {
            attempt: self.run.row.lease.attempt.clone().unwrap_or_default(),
            epoch: self.run.row.lease.epoch,
            until: self.run.row.lease.until,
            cancel: cancel_flags(&self.run.row, self.run.open_commands()),
        }))
    }

    /// Ends the lease, unless a command waits that its runner would leave behind.
    pub fn release(&mut self, holder: &Holder) -> Result<RunAnswer, Error> {
        self.is_open()?;
        self.has_lease(holder)?;
        let open = i64::try_from(self.run.open_commands().count()).unwrap_or(i64::MAX);
        if open == 0 {
            self.run.row.lease.released = true;
            self.run.row.lease.until = self.now;
            if let Some(attempt) = self.run.row.lease.attempt.clone() {
                self.end_jobs_of(&attempt, false);
            }
            self.touch();
        }
        Ok(RunAnswer::Released { pending: open })
    }
}

/// Whether this runner has the lease of a run, or had it and nobody has taken it since. The token of one attempt is none for another.
pub(crate) fn holds_lease(row: &RunRow, holder: &Holder, now: i64, started_at: i64) -> Result<(), Error> {
    let lease = &row.lease;
    let current = lease.runner.is_some() && !lease.released && lease.epoch == holder.epoch;
    if current && holder.attempt.as_ref().is_some_and(|own| lease.attempt.as_ref() != Some(own)) {
        return Err(Error::Forbidden("the lease belongs to another attempt than the token".to_owned()));
    }
    match current && lease.runner.as_deref() == Some(holder.runner_id.as_str()) {
        true => Ok(()),
        false => Err(conflict(row, now, started_at)),
    }
}

fn conflict(row: &RunRow, now: i64, started_at: i64) -> Error {
    let lease = &row.lease;
    let (live, ends_at) = (lease.is_live(now, started_at), lease.ends_at(started_at));
    lease_conflict(LeaseConflict {
        owner: lease.runner.clone().filter(|_| !lease.released),
        attempt: lease.attempt.clone().filter(|_| !lease.released),
        expires_at: live.then(|| iso_ms(ends_at)),
        retry_after_ms: if live { (ends_at - now).clamp(0, lease.length_ms) } else { 0 },
    })
}

/// Which of the open commands of a run should be cancelled by its runner.
pub(crate) fn cancel_flags<'a>(row: &RunRow, open: impl Iterator<Item = &'a CommandRow>) -> CancelFlags {
    let whole = row.cancel_at.is_some();
    let asked = |command: &&CommandRow| command.is_taken() && (whole || command.cancel_at.is_some());
    let mut asked: Vec<&CommandRow> = open.filter(asked).collect();
    asked.sort_by_key(|command| command.seq);
    let command_ids: Vec<String> = asked.into_iter().map(|command| command.id.clone()).collect();
    let scope = match (whole, command_ids.is_empty()) {
        (true, _) => Some(CancelScope::Run),
        (false, false) => Some(CancelScope::Command),
        (false, true) => None,
    };
    CancelFlags { scope, command_ids }
}
