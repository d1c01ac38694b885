//! `session.get`: read a session.

use crate::RunService;
use crate::error::Error;
use crate::session::record::{reader_of, record};
use crate::store::RunFacts;
use kernel::Caller;
use proto_schemas::requests::run::Liveness;
use proto_schemas::requests::session::{Get, GotRunSession, RunSupervisor};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn session_get(
        self: Arc<Self>,
        caller: Caller,
        params: Get,
    ) -> Result<GotRunSession, Error> {
        let reader = reader_of(params.reader_id)?;
        let session = self.visible_session(&caller, &params.session_id, &reader).await?;
        let run = session.active_run.clone().or_else(|| session.last_run.clone());
        let mut session = record(session);
        if let Some(run) = run
            && let Some(liveness) = self.liveness_of(&run).await?
        {
            session.supervisor = self.supervisor_of(&run, &liveness).await?;
            session.liveness = Some(liveness);
        }
        Ok(GotRunSession { session })
    }

    /// Who works on a run, in short: its newest job, and the lease as the liveness sees it.
    async fn supervisor_of(&self, run_id: &str, liveness: &Liveness) -> Result<Option<RunSupervisor>, Error> {
        let Some(RunFacts { row: run, .. }) = self.store.run(run_id).await? else { return Ok(None) };
        let job = self.store.jobs(run_id, None).await?.pop();
        let job = job.map(|job| self.job_shown(&job, &run));
        let lease = liveness.lease.as_ref();
        Ok(Some(RunSupervisor {
            run_id: run.id,
            job_phase: job.as_ref().map(|job| job.phase),
            runner_job_id: job.map(|job| job.runner_job_id),
            runner_id: lease.map(|lease| lease.runner_id.clone()),
            attempt_id: run.lease.attempt.filter(|_| lease.is_some()),
            lease_expires_at: lease.map(|lease| lease.expires_at.clone()),
            lease_expired: lease.map(|lease| lease.expired),
            heartbeat_age_ms: liveness.heartbeat_age_ms,
            recovery: liveness.recovery.iter().map(|one| one.action.clone()).collect(),
        }))
    }
}
