//! `runner.claim`, `runner.heartbeat` and `runner.set_run_status`.

use super::holder;
use crate::RunService;
use crate::error::Error;
use crate::model::call::{CancelFlags, LeaseAnswer, Operation, Report, RunAnswer};
use crate::model::decide::DEFAULT_LEASE_MS;
use crate::runs::{printable, unexpected};
use crate::shown::redacted_text;
use kernel::{Caller, iso_ms};
use proto_schemas::requests::run::{GotRun, RunLease};
use proto_schemas::requests::runner::{Claim, ClaimedRun, Heartbeat, RenewedRunLease, SetRunStatus};
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
        let claim = Operation::Claim { runner_id: runner_id.clone(), attempt: attempt_id.clone(), lease_ms };
        let answer = self.change(&access, &run_id, claim).await?;
        let RunAnswer::Claimed { epoch, until, recovered } = answer else { return Err(unexpected()) };
        let run = self.visible_run(&access, &run_id).await?;
        let lease = RunLease { runner_id, attempt_id, epoch, expires_at: iso_ms(until) };
        Ok(ClaimedRun { run: self.run_record(&run)?, lease, recovered })
    }

    pub(crate) async fn heartbeat(
        self: Arc<Self>,
        caller: Caller,
        params: Heartbeat,
    ) -> Result<RenewedRunLease, Error> {
        let access = self.runner_of(&caller, &params.run_id)?;
        let runner_id = params.runner_id.clone();
        let holder = holder(params.runner_id, params.epoch);
        if params.release == Some(true) {
            let answer = self.change(&access, &params.run_id, Operation::Release { holder }).await?;
            let RunAnswer::Released { pending } = answer else { return Err(unexpected()) };
            return Ok(RenewedRunLease {
                released: Some(pending == 0),
                pending_commands: Some(pending).filter(|pending| *pending > 0),
                ..RenewedRunLease::default()
            });
        }
        let renew = Operation::Renew { holder, lease_ms: params.lease_ms };
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

    pub(crate) async fn set_run_status(
        self: Arc<Self>,
        caller: Caller,
        params: SetRunStatus,
    ) -> Result<GotRun, Error> {
        let access = self.runner_of(&caller, &params.run_id)?;
        let report = report(params.status, params.failure_kind, params.failure_message)?;
        let operation = Operation::ReportRun { holder: holder(params.runner_id, params.epoch), report };
        self.change(&access, &params.run_id, operation).await?;
        let run = self.visible_run(&access, &params.run_id).await?;
        Ok(GotRun { run: self.run_record(&run)? })
    }
}

/// The kinds of failures with which a command or a run may end.
const TERMINAL_KINDS: [&str; 11] = [
    "schema-invalid",
    "tenant-policy-denied",
    "secret-unavailable",
    "backend-failed",
    "backend-timeout",
    "provider-auth-failed",
    "provider-unavailable",
    "infra-failed",
    "cancelled",
    "session-store-evicted",
    "thread-resume-failed",
];

/// What a runner reports, with its words redacted: they go into the log.
pub(super) fn report(
    status: proto_schemas::requests::runner::ReportedStatus,
    kind: Option<String>,
    message: Option<String>,
) -> Result<Report, Error> {
    if let Some(kind) = &kind
        && !TERMINAL_KINDS.contains(&kind.as_str())
    {
        let known = TERMINAL_KINDS.join(", ");
        return Err(Error::Invalid(format!("failureKind must be one of {known}")));
    }
    if let Some(message) = &message
        && message.contains('\0')
    {
        printable("failureMessage", message)?;
    }
    Ok(Report { status, failure_kind: kind, failure_message: message.as_deref().map(redacted_text) })
}
