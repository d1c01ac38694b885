//! The processes of runners that the server has started itself.

use super::RunDecision;
use crate::error::Error;
use crate::model::call::RunAnswer;
use crate::model::run::RunnerProcessId;
use proto_schemas::requests::run::RunEventType;
use serde_json::json;

impl RunDecision<'_> {
    /// Where the runner of a job is, so that it is found again after a restart of the server. A job that has ended meanwhile wants none.
    pub fn process_started(&mut self, job_id: &str, process: RunnerProcessId) -> Result<RunAnswer, Error> {
        let open = self.run.jobs.iter_mut().find(|job| job.id == job_id && job.ended_at.is_none());
        let job = open.ok_or_else(|| Error::Illegal(format!("runner job {job_id} has ended")))?;
        job.process = Some(process);
        self.run.changed_jobs.insert(job_id.to_owned());
        self.run.changed = true;
        Ok(RunAnswer::ProcessNoted)
    }

    /// With its process a runner has no lease any more, so that nobody waits for the end of it. What was asked to be cancelled is, then.
    pub fn process_ended(
        &mut self,
        job_id: &str,
        failed: bool,
        message: Option<String>,
    ) -> Result<RunAnswer, Error> {
        let open = self.run.jobs.iter().find(|job| job.id == job_id && job.ended_at.is_none());
        let Some(job) = open.cloned() else { return Ok(RunAnswer::ProcessNoted) };
        let lease = &mut self.run.row.lease;
        let was_its_own = job.runner.is_some()
            && lease.runner == job.runner
            && lease.attempt.as_deref() == Some(job.attempt.as_str())
            && !lease.released;
        if was_its_own {
            (lease.until, lease.length_ms) = (self.now, 0);
        }
        let has_failed = failed || was_its_own || job.runner.is_none();
        self.end_jobs_where(has_failed, |other| other.id == job_id);
        self.touch();
        if let Some(message) = message.filter(|_| self.run.row.terminal().is_none()) {
            let about = (Some(job.command_id), Some(job.attempt.clone()));
            let payload = json!({ "phase": "launch-failed", "attemptId": job.attempt, "message": message });
            self.log_of(RunEventType::RunnerStatus, about, &payload)?;
        }
        if was_its_own {
            self.sweep();
        }
        Ok(RunAnswer::ProcessNoted)
    }
}
