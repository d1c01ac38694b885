//! Runner jobs, and the runners that come of them.

use super::RunDecision;
use super::commands::state_word;
use crate::error::Error;
use crate::model::call::{Holder, NewJob, NewRunner, RunAnswer, StorageCheck};
use crate::model::run::{JobRow, NewRunnerRow, NewTokenRow};
use kernel::{Kept, Payer};

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
        if let Some(profile) = &new.no_credential {
            return Err(Error::SecretUnavailable(format!("profile {profile} has no credential")));
        }
        if let Some(most) = new.local.as_ref().and_then(|local| local.full) {
            return Err(too_many_runners(most));
        }
        self.has_storage(&new)?;
        if new.storage == StorageCheck::Unknown {
            return Ok(RunAnswer::StorageUnknown);
        }
        let more = Kept::rows(1, new.env.len());
        let payer = Payer::tenant(&self.run.row.tenant);
        self.runs.kept.charge(&payer, more).map_err(kernel::ChargeError::Full)?;
        self.end_lost_jobs();

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
            registered_at: None,
            ended_at: None,
            failed: false,
            owner: new.local.as_ref().map(|local| local.owner.clone()),
            isolation: new.local.as_ref().map(|local| local.isolation),
            process: None,
        });
        self.touch();
        Ok(RunAnswer::Job { run_id, job_id: new.id, created: true })
    }

    /// A lease that is live, as the refusal of a claim names it.
    fn lease_is_taken(&self) -> Error {
        let nobody = Holder { runner_id: String::new(), epoch: -1, attempt: None };
        self.has_lease(&nobody).err().unwrap_or_else(|| Error::Illegal(String::new()))
    }

    /// The job of this command whose runner may still come. It has no lease, or no other one would be asked for.
    fn active_job(&self, command_id: &str) -> Option<String> {
        let (lease, now, started_at) = (&self.run.row.lease, self.now, self.limits.started_at);
        let of_command =
            |job: &&JobRow| job.command_id == command_id && job.is_active(lease, now, started_at);
        self.run.jobs.iter().find(of_command).map(|job| job.id.clone())
    }

    fn has_storage(&self, new: &NewJob) -> Result<(), Error> {
        let Some(session_id) = &self.run.row.session else { return Ok(()) };
        let Some(session) = self.runs.sessions.get(session_id) else { return Ok(()) };
        if session.storage_kind != "pvc" || new.storage == StorageCheck::Missing {
            return Err(Error::StoreEvicted(session_id.clone()));
        }
        if new.storage == StorageCheck::Unknown {
            return Ok(());
        }
        let reported = session.storage_bytes.is_some_and(|bytes| bytes > new.session_bytes);
        if reported || new.storage == StorageCheck::Full {
            return Err(Error::StorageFull);
        }
        Ok(())
    }

    /// Its row is stored with the run that it is for, and paid for by the tenant, as everything that belongs to a run.
    pub fn register(&mut self, new: NewRunner) -> Result<RunAnswer, Error> {
        self.is_open()?;
        let NewRunner { id, attempt, placement, body } = new;
        let payer = Payer::tenant(&self.run.row.tenant);
        self.runs.kept.charge(&payer, Kept::rows(1, body.len())).map_err(kernel::ChargeError::Full)?;
        let job = self.run.jobs.iter_mut().find(|job| job.attempt == attempt && job.ended_at.is_none());
        if let Some(job) = job {
            job.runner = Some(id.clone());
            job.registered_at = Some(self.now);
            self.run.changed_jobs.insert(job.id.clone());
            self.touch();
        }
        self.runs.new_runners.push(NewRunnerRow {
            id,
            tenant: self.run.row.tenant.clone(),
            run_id: self.run.row.id.clone(),
            attempt,
            placement,
            body,
            registered_at: self.now,
        });
        self.run.changed = true;
        Ok(RunAnswer::Registered { at: self.now })
    }

    /// The jobs of a run that has ended.
    pub(super) fn end_jobs(&mut self, failed: bool) {
        self.end_jobs_where(failed, |_| true);
    }

    /// The jobs of an attempt whose lease has ended.
    pub(super) fn end_jobs_of(&mut self, attempt: &str, failed: bool) {
        self.end_jobs_where(failed, |job| job.attempt == attempt);
    }

    /// The jobs whose runner has not come, or has died. Those of other commands whose runner may still come go on.
    fn end_lost_jobs(&mut self) {
        let (lease, now, started_at) = (self.run.row.lease.clone(), self.now, self.limits.started_at);
        self.end_jobs_where(true, |job| !job.is_active(&lease, now, started_at));
    }

    pub(super) fn end_jobs_where(&mut self, failed: bool, is_over: impl Fn(&JobRow) -> bool) {
        for job in self.run.jobs.iter_mut().filter(|job| job.ended_at.is_none() && is_over(job)) {
            job.ended_at = Some(self.now);
            job.failed = failed;
            self.run.changed_jobs.insert(job.id.clone());
        }
    }
}

/// The runners of a server are processes on its machine.
fn too_many_runners(most: usize) -> Error {
    let most_allowed = i64::try_from(most).unwrap_or(i64::MAX);
    Error::Limit {
        sentence: format!("this server runs {most} runners, as many as run.local_runners allows"),
        scope: "server.runners",
        limit: most_allowed,
        held: most_allowed,
    }
}
