//! `runner.register`: announce a runner.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::ids::new_id;
use crate::known_profiles::check_slug;
use crate::model::call::{NewRunner, RunAnswer, RunOperation};
use crate::model::decide::DEFAULT_LEASE_MS;
use crate::runs::{printable, unexpected};
use crate::shown::redacted;
use kernel::{Caller, RpcError, iso_ms};
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
        check_attempt(&attempt)?;
        check_slug(&params.backend_profile)?;
        let access = self.runner_of(&caller, &run_id)?;
        self.visible_run(&access, &run_id).await?;
        if self.store.count_runners(&run_id).await? >= MOST_RUNNERS {
            return Err(Error::Limit {
                sentence: format!("a run may have {MOST_RUNNERS} runners at most"),
                scope: "run.runners",
                limit: MOST_RUNNERS,
                held: MOST_RUNNERS,
            });
        }

        let runner_id = new_id(&self.ids, "runner", self.clock.now_ms());
        let body = to_raw_value(&params).map_err(RpcError::internal)?;
        let placement = match params.placement {
            RunnerPlacement::HostProcess => "host-process",
            RunnerPlacement::KubernetesJob => "kubernetes-job",
        };
        let body = redacted(&body)?.get().to_owned();
        let new = NewRunner { id: runner_id.clone(), attempt, placement, body };
        let answer = self.change(&access, &run_id, RunOperation::Register(Box::new(new))).await?;
        let RunAnswer::Registered { at } = answer else { return Err(unexpected()) };
        Ok(RegisteredRunner {
            runner_id,
            registered_at: iso_ms(at),
            heartbeat_interval_ms: DEFAULT_LEASE_MS / 3,
        })
    }
}

/// An attempt is a name in the store, and the second word of the subject of a token. Those of tokens were checked when they were made.
fn check_attempt(attempt: &str) -> Result<(), Error> {
    printable("attemptId", attempt)?;
    match attempt.is_empty() || attempt.contains(' ') {
        true => Err(Error::Invalid("attemptId must have a character, and no spaces".to_owned())),
        false => Ok(()),
    }
}
