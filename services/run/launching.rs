//! Runners that the server starts without being asked, for turns of tasks and conversations.

use crate::RunService;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::run::{LauncherKind, RunnerJobCreate};
use std::sync::Arc;

/// Runners that are started for one turn. More do not help where three could not finish it.
pub(crate) const MOST_RUNNERS: usize = 3;

/// Whether a runner works on a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnRunner {
    /// One does, or may still come. Without runners of this server somebody else starts it.
    There,
    /// This server has as many as it may have: one has to end first.
    ServerFull,
    /// As many as may be tried have ended before the turn did.
    GivenUp,
}

impl RunService {
    /// Has a runner started for a turn, unless there is one. However often it is called, and by however many processes, one is started at a
    /// time.
    pub(crate) async fn runner_for(
        self: &Arc<Self>,
        run_id: &str,
        command_id: &str,
        key: &str,
        idle_ms: i64,
    ) -> Result<TurnRunner, Error> {
        if self.launcher.kind() != LauncherKind::Local {
            return Ok(TurnRunner::There);
        }
        let Some(run) = self.store.run(run_id).await? else { return Ok(TurnRunner::There) };
        let (now, started_at) = (self.clock.now_ms(), self.started_at());
        let jobs = self.store.jobs(run_id, Some(command_id)).await?;
        let lease = &run.row.lease;
        let works = lease.is_live(now, started_at);
        if works || jobs.iter().any(|job| job.is_active(lease, now, started_at)) {
            return Ok(TurnRunner::There);
        }
        if jobs.len() >= MOST_RUNNERS {
            return Ok(TurnRunner::GivenUp);
        }
        let job = RunnerJobCreate {
            run_id: run_id.to_owned(),
            command_id: command_id.to_owned(),
            idempotency_key: Some(format!("{key} {}", jobs.len() + 1)),
            launcher: Some(LauncherKind::Local),
            idle_timeout_ms: Some(idle_ms),
            ..RunnerJobCreate::default()
        };
        match self.clone().runner_job_create(Caller::Operator, job).await {
            Ok(_) | Err(Error::JobActive { .. } | Error::Lease(_)) => Ok(TurnRunner::There),
            Err(Error::Limit { scope: "server.runners", .. }) => Ok(TurnRunner::ServerFull),
            Err(error) => Err(error),
        }
    }
}
