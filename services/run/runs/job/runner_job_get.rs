//! `run.runner_job_get`: read a runner job.

use crate::RunService;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::run::{GotRunnerJob, RunnerJobGet};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn runner_job_get(
        self: Arc<Self>,
        caller: Caller,
        params: RunnerJobGet,
    ) -> Result<GotRunnerJob, Error> {
        self.job_of(&caller, &params.run_id, &params.runner_job_id).await
    }
}
