//! `runner.heartbeat`: renew or release the lease of a run.

use crate::RunService;
use crate::error::Error;
use crate::model::call::{CancelFlags, LeaseAnswer, RunAnswer, RunOperation};
use crate::runner::holder;
use crate::runs::unexpected;
use kernel::{Caller, iso_ms};
use proto_schemas::requests::run::RunLease;
use proto_schemas::requests::runner::{Heartbeat, RenewedRunLease};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn heartbeat(
        self: Arc<Self>,
        caller: Caller,
        params: Heartbeat,
    ) -> Result<RenewedRunLease, Error> {
        let access = self.runner_of(&caller, &params.run_id)?;
        let runner_id = params.runner_id.clone();
        let holder = holder(&access, params.runner_id, params.epoch);
        if params.release == Some(true) {
            let answer = self.change(&access, &params.run_id, RunOperation::Release { holder }).await?;
            let RunAnswer::Released { pending } = answer else { return Err(unexpected()) };
            return Ok(RenewedRunLease {
                released: Some(pending == 0),
                pending_commands: Some(pending).filter(|pending| *pending > 0),
                ..RenewedRunLease::default()
            });
        }
        let renew = RunOperation::Renew { holder, lease_ms: params.lease_ms };
        let answer = self.change(&access, &params.run_id, renew).await?;
        let RunAnswer::Lease(LeaseAnswer { attempt, epoch, until, cancel }) = answer else {
            return Err(unexpected());
        };
        let CancelFlags { scope, command_ids } = cancel;
        Ok(RenewedRunLease {
            lease: Some(RunLease { runner_id, attempt_id: attempt, epoch, expires_at: iso_ms(until) }),
            released: None,
            pending_commands: None,
            cancel_requested: scope.is_some(),
            cancel_scope: scope,
            command_ids,
            approvals: self.answers_for_runner(&params.run_id).await?,
        })
    }
}
