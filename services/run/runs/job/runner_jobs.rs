//! `run.runner_jobs`: the runner jobs of a run.

use crate::RunService;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::run::{RunnerJobList, RunnerJobs};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn runner_jobs(
        self: Arc<Self>,
        caller: Caller,
        params: RunnerJobs,
    ) -> Result<RunnerJobList, Error> {
        let run = self.run_of(&caller, &params.run_id).await?;
        let jobs = self.store.jobs(&run.row.id, params.command_id.as_deref()).await?;
        Ok(RunnerJobList { runner_jobs: jobs.iter().map(|job| self.job_shown(job, &run.row)).collect() })
    }
}
