//! Runner jobs, and questions of back ends.

use super::RunDecision;
use super::commands::state_word;
use crate::error::Error;
use crate::model::call::{NewJob, RunAnswer, StorageCheck};
use crate::model::run::{ApprovalRow, JOB_START_MS, JobRow, NewTokenRow};
use kernel::{Kept, Payer};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a back end may offer besides.
#[derive(Deserialize)]
struct OfferedOptions {
    #[serde(default)]
    options: Vec<String>,
}

/// The decisions that every question takes.
pub(crate) const DECISIONS: [&str; 3] = ["accept", "decline", "cancel"];

impl RunDecision<'_> {
    pub fn add_job(&mut self, new: NewJob) -> Result<RunAnswer, Error> {
        let run_id = self.run.row.id.clone();
        if let Some(key) = &new.key {
            let known = self.run.jobs.iter().find(|job| job.key.as_ref() == Some(key));
            if let Some(known) = known {
                return match known.request_hash == new.request_hash {
                    true => Ok(RunAnswer::Job { run_id, job_id: known.id.clone(), created: false }),
                    false => {
                        Err(Error::Idempotency { member: "existingRunnerJobId", existing: known.id.clone() })
                    }
                };
            }
        }
        self.is_open()?;
        let command = self.command(&new.command_id)?;
        if command.ended_at.is_some() || command.cancel_at.is_some() {
            let state = if command.ended_at.is_some() { state_word(command.state) } else { "cancelled" };
            return Err(Error::Illegal(format!("command {} is not pending: {state}", new.command_id)));
        }
        if self.lease_is_live() {
            return Err(self.lease_is_taken());
        }
        if let Some(active) = self.active_job(&new.command_id) {
            return Err(Error::JobActive { runner_job: active });
        }
        self.has_storage(&new)?;
        let more = Kept::rows(1, new.env.len());
        let payer = Payer::tenant(&self.run.row.tenant);
        self.runs.kept.charge(&payer, more).map_err(kernel::ChargeError::Full)?;
        self.end_jobs(true);

        self.runs.new_tokens.push(NewTokenRow {
            hash: new.token_hash,
            prefix: new.token_prefix,
            run_id: run_id.clone(),
            attempt: new.attempt.clone(),
            created_at: self.now,
        });
        self.runs.new_jobs.push((run_id.clone(), new.id.clone()));
        self.run.jobs.push(JobRow {
            id: new.id.clone(),
            run_id: run_id.clone(),
            command_id: new.command_id,
            attempt: new.attempt,
            key: new.key,
            request_hash: new.request_hash,
            launcher: new.launcher,
            env: new.env,
            idle_timeout_ms: new.idle_timeout_ms,
            log_ref: new.log_ref,
            runner: None,
            created_at: self.now,
            ended_at: None,
            failed: false,
        });
        self.touch();
        Ok(RunAnswer::Job { run_id, job_id: new.id, created: true })
    }

    /// A lease that is live, as the refusal of a claim names it.
    fn lease_is_taken(&self) -> Error {
        let nobody = crate::model::call::Holder { runner_id: String::new(), epoch: -1 };
        self.has_lease(&nobody).err().unwrap_or_else(|| Error::Illegal(String::new()))
    }

    /// The job of this command that has a runner, or may get one still. Its runner has no lease, or it would not be asked for another.
    fn active_job(&self, command_id: &str) -> Option<String> {
        let starting = |job: &&JobRow| {
            let of_command = job.command_id == command_id && job.ended_at.is_none();
            of_command && job.runner.is_none() && job.created_at + JOB_START_MS > self.now
        };
        self.run.jobs.iter().find(starting).map(|job| job.id.clone())
    }

    fn has_storage(&self, new: &NewJob) -> Result<(), Error> {
        let Some(session_id) = &self.run.row.session else { return Ok(()) };
        let Some(session) = self.runs.sessions.get(session_id) else { return Ok(()) };
        if session.storage_kind != "pvc" || new.storage == StorageCheck::Missing {
            return Err(Error::StoreEvicted(session_id.clone()));
        }
        let reported = session.storage_bytes.is_some_and(|bytes| bytes > new.session_bytes);
        if reported || new.storage == StorageCheck::Full {
            return Err(Error::Infra("session storage is over its quota".to_owned()));
        }
        Ok(())
    }

    pub fn register(&mut self, runner_id: String, attempt: &str) -> Result<RunAnswer, Error> {
        self.is_open()?;
        let run_id = self.run.row.id.clone();
        let job = self.run.jobs.iter_mut().find(|job| job.attempt == attempt && job.ended_at.is_none());
        if let Some(job) = job {
            job.runner = Some(runner_id);
            self.run.changed_jobs.insert(job.id.clone());
            self.touch();
        }
        Ok(RunAnswer::Run { run_id, created: false })
    }

    /// The jobs before have no runner any more.
    pub(super) fn end_jobs(&mut self, failed: bool) {
        for job in self.run.jobs.iter_mut().filter(|job| job.ended_at.is_none()) {
            job.ended_at = Some(self.now);
            job.failed = failed;
            self.run.changed_jobs.insert(job.id.clone());
        }
    }

    /// The first answer counts.
    pub fn approve(
        &mut self,
        id: &str,
        command_id: Option<&str>,
        decision: String,
        answer: Option<Box<RawValue>>,
        by: String,
    ) -> Result<RunAnswer, Error> {
        let now = self.now;
        let of_command = |row: &&mut ApprovalRow| command_id.is_none_or(|command| row.command_id == command);
        let approval = self.run.approvals.get_mut(id).filter(of_command);
        let Some(approval) = approval else {
            return Err(Error::NotFound(format!("approval {id}")));
        };
        if let Some(first) = &approval.decision {
            return match *first == decision {
                true => Ok(RunAnswer::Approved),
                false => Err(Error::Illegal(format!("approval {id} was answered already: {first}"))),
            };
        }
        if approval.settled_at.is_some() {
            return Err(Error::Illegal(format!("approval {id} is not open any more")));
        }
        let options = serde_json::from_str::<OfferedOptions>(approval.question.get())
            .map(|question| question.options)
            .unwrap_or_default();
        if !DECISIONS.contains(&&*decision) && !options.contains(&decision) {
            let offered: Vec<&str> = match options.is_empty() {
                true => DECISIONS.to_vec(),
                false => options.iter().map(String::as_str).collect(),
            };
            return Err(Error::Invalid(format!("decision must be one of {}", offered.join(", "))));
        }
        let answer_bytes = answer.as_ref().map_or(0, |answer| answer.get().len());
        let payer = Payer::tenant(&self.run.row.tenant);
        let more = Kept { bytes: i64::try_from(answer_bytes).unwrap_or(i64::MAX), rows: 0 };
        self.runs.kept.charge(&payer, more).map_err(kernel::ChargeError::Full)?;
        let (cancels, command) = (decision == "cancel", approval.command_id.clone());
        approval.decision = Some(decision);
        approval.answer = answer;
        approval.answered_by = Some(by);
        approval.answered_at = Some(now);
        self.run.changed_approvals.insert(id.to_owned());
        self.touch();
        // A back end that is told to cancel ends its turn so, and its runner reports that.
        if cancels {
            let command = self.command(&command)?;
            command.cancel_at.get_or_insert(now);
            let id = command.id.clone();
            self.command_changed(&id);
        }
        Ok(RunAnswer::Approved)
    }
}
