//! `runner.register`: announce a runner.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::ids::new_id;
use crate::known_profiles::check_slug;
use crate::model::call::RunOperation;
use crate::model::decide::DEFAULT_LEASE_MS;
use crate::shown::redacted;
use crate::store::NewRunnerRow;
use kernel::{Caller, Payer, RpcError, iso_ms};
use proto_schemas::requests::runner::{Register, RegisteredRunner, RunnerPlacement};
use serde_json::value::to_raw_value;
use std::sync::Arc;

/// Runners of one run, dead ones included.
const MOST_RUNNERS: i64 = 1000;

impl RunService {
    pub(crate) async fn register(
        self: Arc<Self>,
        caller: Caller,
        params: Register,
    ) -> Result<RegisteredRunner, Error> {
        let (run_id, attempt) = match (self.access(&caller)?, &params.run_id, &params.attempt_id) {
            (RunAccess::Runner { run, attempt }, _, _) => (run, attempt),
            (RunAccess::Admin, Some(run), Some(attempt)) => (run.clone(), attempt.clone()),
            (RunAccess::Admin, _, _) => {
                return Err(Error::Invalid("runId and attemptId are required".to_owned()));
            }
            (RunAccess::Tenants(_), _, _) => return Err(Error::Forbidden("this is for runners".to_owned())),
        };
        for (member, given, own) in
            [("runId", &params.run_id, &run_id), ("attemptId", &params.attempt_id, &attempt)]
        {
            if given.as_ref().is_some_and(|given| given != own) {
                return Err(Error::Forbidden(format!("{member} is not that of the token")));
            }
        }
        let access = self.runner_of(&caller, &run_id)?;
        let run = self.visible_run(&access, &run_id).await?;
        if self.store.count_runners(&run_id).await? >= MOST_RUNNERS {
            return Err(Error::Limit {
                sentence: format!("a run may have {MOST_RUNNERS} runners at most"),
                scope: "run.runners",
                limit: MOST_RUNNERS,
                held: MOST_RUNNERS,
            });
        }
        let now = self.clock.now_ms();
        let runner_id = new_id(&self.ids, "runner", now);
        check_slug(&params.backend_profile)?;
        let body = to_raw_value(&params).map_err(RpcError::internal)?;
        let body = redacted(&body)?.get().to_owned();
        let operation = RunOperation::Register { runner_id: runner_id.clone(), attempt: attempt.clone() };
        let placement = match params.placement {
            RunnerPlacement::HostProcess => "host-process",
            RunnerPlacement::KubernetesJob => "kubernetes-job",
        };
        let payer = Payer::tenant(&run.row.tenant);
        let row = NewRunnerRow {
            id: &runner_id,
            payer: payer.key(),
            run_id: &run_id,
            attempt: &attempt,
            placement,
            body: &body,
            registered_at: now,
        };
        self.store.insert_runner(&row).await?;
        self.change(&access, &run_id, operation).await?;
        Ok(RegisteredRunner {
            runner_id,
            registered_at: iso_ms(now),
            heartbeat_interval_ms: DEFAULT_LEASE_MS / 3,
        })
    }
}
