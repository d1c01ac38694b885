//! `run.runner_job_create`: have a runner started for a command.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::ids::new_id;
use crate::launcher::LocalLaunch;
use crate::model::call::{NewJob, RunAnswer, RunOperation, StorageCheck};
use crate::model::fixed::RunFixed;
use crate::runs::create::unexpected;
use crate::runs::job::{DEFAULT_IDLE_MS, check_env};
use crate::runs::printable;
use crate::store::RunFacts;
use crate::tokens::{hash_of, shown_part};
use kernel::{Caller, RpcError};
use proto_schemas::requests::run::{CreatedRunnerJob, GotRunnerJob, LauncherKind, RunnerJobCreate};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn runner_job_create(
        self: Arc<Self>,
        caller: Caller,
        params: RunnerJobCreate,
    ) -> Result<CreatedRunnerJob, Error> {
        let access = self.access(&caller)?;
        let env = params.env.clone().unwrap_or_default();
        check_env(&env)?;
        for (member, text) in [("idempotencyKey", &params.idempotency_key), ("attemptId", &params.attempt_id)]
        {
            if let Some(text) = text {
                printable(member, text)?;
            }
        }
        let launcher = params.launcher.unwrap_or_else(|| self.launcher.kind());
        if params.attempt_id.as_deref().is_some_and(|attempt| attempt.contains(' ')) {
            return Err(Error::Invalid("attemptId must not have spaces".to_owned()));
        }
        let request_hash =
            self.digest(&caller, &RunnerJobCreate { idempotency_key: None, ..params.clone() }).await?;
        let run = self.visible_run(&access, &params.run_id).await?;
        let session = run.row.session.as_deref();
        let (local, slot) = match launcher {
            LauncherKind::External => (None, None),
            LauncherKind::Local => {
                let (local, slot) = self.launcher.reserve()?;
                (Some(local), slot)
            }
            LauncherKind::Kubernetes => {
                let sentence = "launcher must be local or external: this server has no other one";
                return Err(Error::Invalid(sentence.to_owned()));
            }
        };
        let now = self.clock.now_ms();
        let token = self.new_runner_token();
        let new = NewJob {
            id: new_id(&self.ids, "rjob", now),
            command_id: params.command_id,
            attempt: params.attempt_id.unwrap_or_else(|| new_id(&self.ids, "attempt", now)),
            key: params.idempotency_key,
            request_hash,
            launcher,
            env: serde_json::to_string(&env).map_err(RpcError::internal)?,
            idle_timeout_ms: params.idle_timeout_ms.unwrap_or(DEFAULT_IDLE_MS),
            log_ref: new_id(&self.ids, "log", now),
            token_hash: hash_of(&token),
            token_prefix: shown_part(&token),
            no_credential: self.missing_credential(&run).await?,
            storage: if session.is_some() { StorageCheck::Unknown } else { StorageCheck::Present },
            session_bytes: i64::try_from(self.settings.session_bytes).unwrap_or(i64::MAX),
            local,
        };
        let answer = self.add_job(&access, &params.run_id, session, new).await?;
        let RunAnswer::Job { run_id, job_id, created } = answer else { return Err(unexpected()) };
        if let (true, Some(slot)) = (created, slot) {
            let job = self.store.job(&run_id, &job_id).await?;
            let job = job.ok_or_else(|| Error::NotFound(format!("runner job {job_id}")))?;
            self.launch(LocalLaunch { run, job, token: token.clone(), slot }).await;
        }
        let GotRunnerJob { mut runner_job } = self.job_of(&caller, &run_id, &job_id).await?;
        if created && launcher == LauncherKind::External {
            runner_job.runner_token = Some(token);
            runner_job.manager = Some(self.manager_url.clone());
        }
        Ok(CreatedRunnerJob { runner_job, created })
    }

    /// Everything else is decided first: a repetition, and what is refused anyway, is no reason to measure a folder.
    async fn add_job(
        &self,
        access: &RunAccess,
        run_id: &str,
        session: Option<&str>,
        new: NewJob,
    ) -> Result<RunAnswer, Error> {
        let answer = self.change(access, run_id, RunOperation::AddJob(Box::new(new.clone()))).await?;
        let (RunAnswer::StorageUnknown, Some(session)) = (&answer, session) else { return Ok(answer) };
        let storage = self.storage_of(session).await?;
        self.change(access, run_id, RunOperation::AddJob(Box::new(NewJob { storage, ..new }))).await
    }

    /// The profile of a run, if the server has named its credential, which was deleted while the run was created.
    async fn missing_credential(&self, run: &RunFacts) -> Result<Option<String>, Error> {
        let fixed: RunFixed = serde_json::from_str(&run.fixed).map_err(RpcError::internal)?;
        let is_missing = fixed.credential_is_own && !self.has_credential(&fixed.backend_profile).await?;
        Ok(is_missing.then_some(fixed.backend_profile))
    }
}
