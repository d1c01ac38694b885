//! `runner.claim`: take the lease of a run.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::model::call::{RunAnswer, RunOperation};
use crate::model::decide::DEFAULT_LEASE_MS;
use crate::runs::unexpected;
use kernel::{Caller, RpcError, iso_ms};
use proto_schemas::requests::run::RunLease;
use proto_schemas::requests::runner::{Claim, ClaimedRun};
use serde_json::value::RawValue;
use std::sync::Arc;

impl RunService {
    pub(crate) async fn claim(self: Arc<Self>, caller: Caller, params: Claim) -> Result<ClaimedRun, Error> {
        let Claim { run_id, runner_id, attempt_id, lease_ms } = params;
        let access = self.runner_of(&caller, &run_id)?;
        if let RunAccess::Runner { attempt, .. } = &access
            && *attempt != attempt_id
        {
            return Err(Error::Forbidden("attemptId is not that of the token".to_owned()));
        }
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
        let session_state = self.session_state(run.row.session.as_deref()).await?;
        Ok(ClaimedRun { run: self.run_record(&run)?, lease, recovered, session_state })
    }

    /// What the last runner of the session said that the back end needs: the next one goes on with the same thread.
    async fn session_state(&self, session: Option<&str>) -> Result<Option<Box<RawValue>>, Error> {
        let Some(session) = session else { return Ok(None) };
        let state = self.store.back_end_of_session(session).await?;
        Ok(state.map(RawValue::from_string).transpose().map_err(RpcError::internal)?)
    }
}
