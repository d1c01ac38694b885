//! `runner.claim`: take the lease of a run.

use crate::RunService;
use crate::error::Error;
use crate::model::call::{RunAnswer, RunOperation};
use crate::model::decide::DEFAULT_LEASE_MS;
use crate::runs::unexpected;
use kernel::{Caller, iso_ms};
use proto_schemas::requests::run::RunLease;
use proto_schemas::requests::runner::{Claim, ClaimedRun};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn claim(self: Arc<Self>, caller: Caller, params: Claim) -> Result<ClaimedRun, Error> {
        let Claim { run_id, runner_id, attempt_id, lease_ms } = params;
        let access = self.runner_of(&caller, &run_id)?;
        let registered = self.store.runner(&run_id, &runner_id).await?;
        let attempt = registered.ok_or_else(|| Error::NotFound(format!("runner {runner_id}")))?;
        if attempt != attempt_id {
            return Err(Error::Forbidden(format!("attemptId is not that of runner {runner_id}")));
        }
        let lease_ms = lease_ms.unwrap_or(DEFAULT_LEASE_MS);
        let claim =
            RunOperation::Claim { runner_id: runner_id.clone(), attempt: attempt_id.clone(), lease_ms };
        let answer = self.change(&access, &run_id, claim).await?;
        let RunAnswer::Claimed { epoch, until, recovered } = answer else { return Err(unexpected()) };
        let run = self.visible_run(&access, &run_id).await?;
        let lease = RunLease { runner_id, attempt_id, epoch, expires_at: iso_ms(until) };
        Ok(ClaimedRun { run: self.run_record(&run)?, lease, recovered })
    }
}
