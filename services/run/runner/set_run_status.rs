//! `runner.set_run_status`: say that a run has ended.

use crate::RunService;
use crate::error::Error;
use crate::model::call::RunOperation;
use crate::runner::holder;
use crate::runner::report::report;
use kernel::Caller;
use proto_schemas::requests::run::GotRun;
use proto_schemas::requests::runner::SetRunStatus;
use std::sync::Arc;

impl RunService {
    pub(crate) async fn set_run_status(
        self: Arc<Self>,
        caller: Caller,
        params: SetRunStatus,
    ) -> Result<GotRun, Error> {
        let access = self.runner_of(&caller, &params.run_id)?;
        let report = report(params.status, params.failure_kind, params.failure_message)?;
        let holder = holder(&access, params.runner_id, params.epoch);
        let operation = RunOperation::ReportRun { holder, report };
        self.change(&access, &params.run_id, operation).await?;
        let run = self.visible_run(&access, &params.run_id).await?;
        Ok(GotRun { run: self.run_record(&run)? })
    }
}
