//! `run.runner_job_create`, `run.runner_jobs` and `run.runner_job_get`.

use super::create::unexpected;
use super::printable;
use crate::RunService;
use crate::error::Error;
use crate::ids::new_id;
use crate::model::call::{NewJob, Operation, RunAnswer, StorageCheck};
use crate::tokens::{hash_of, shown_part};
use kernel::{Caller, RpcError};
use proto_schemas::requests::run::{
    CreatedRunnerJob, GotRunnerJob, LauncherKind, RunnerJobCreate, RunnerJobGet, RunnerJobList, RunnerJobs,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const DEFAULT_IDLE_MS: i64 = 60_000;
const MOST_ENV: usize = 32;
const MOST_ENV_BYTES: usize = 4 << 10;

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
        let launcher = params.launcher.unwrap_or(self.settings.launcher);
        if params.attempt_id.as_deref().is_some_and(|attempt| attempt.contains(' ')) {
            return Err(Error::Invalid("attemptId must not have spaces".to_owned()));
        }
        let request_hash =
            self.digest(&caller, &RunnerJobCreate { idempotency_key: None, ..params.clone() }).await?;
        let run = self.visible_run(&access, &params.run_id).await?;
        if launcher != LauncherKind::External {
            return Err(Error::Infra("launcher external is the only one that this server has".to_owned()));
        }
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
            storage: match &run.row.session {
                Some(session) if !self.storage.exists(session).await.unwrap_or(false) => {
                    StorageCheck::Missing
                }
                _ => StorageCheck::Present,
            },
            session_bytes: i64::try_from(self.settings.session_bytes).unwrap_or(i64::MAX),
        };
        let answer = self.change(&access, &params.run_id, Operation::AddJob(Box::new(new))).await?;
        let RunAnswer::Job { run_id, job_id, created } = answer else { return Err(unexpected()) };
        let GotRunnerJob { mut runner_job } = self.job_of(&caller, &run_id, &job_id).await?;
        if created {
            runner_job.runner_token = Some(token);
            runner_job.manager = Some(self.manager_url.clone());
        }
        Ok(CreatedRunnerJob { runner_job, created })
    }

    pub(crate) async fn runner_jobs(
        self: Arc<Self>,
        caller: Caller,
        params: RunnerJobs,
    ) -> Result<RunnerJobList, Error> {
        let run = self.run_of(&caller, &params.run_id).await?;
        let jobs = self.store.jobs(&run.row.id, params.command_id.as_deref()).await?;
        Ok(RunnerJobList { runner_jobs: jobs.iter().map(|job| self.job_shown(job, &run.row)).collect() })
    }

    pub(crate) async fn runner_job_get(
        self: Arc<Self>,
        caller: Caller,
        params: RunnerJobGet,
    ) -> Result<GotRunnerJob, Error> {
        self.job_of(&caller, &params.run_id, &params.runner_job_id).await
    }

    async fn job_of(&self, caller: &Caller, run_id: &str, id: &str) -> Result<GotRunnerJob, Error> {
        let run = self.run_of(caller, run_id).await?;
        let job = self.store.job(&run.row.id, id).await?;
        let job = job.ok_or_else(|| Error::NotFound(format!("runner job {id}")))?;
        Ok(GotRunnerJob { runner_job: self.job_shown(&job, &run.row) })
    }
}

/// Settings of a runner, and nothing with which its process or its secrets could be changed.
fn check_env(env: &BTreeMap<String, String>) -> Result<(), Error> {
    let invalid = |sentence: String| Err(Error::Invalid(sentence));
    if env.len() > MOST_ENV {
        return invalid(format!("env must have at most {MOST_ENV} entries"));
    }
    let bytes: usize = env.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MOST_ENV_BYTES {
        return invalid(format!("env must have at most {MOST_ENV_BYTES} bytes"));
    }
    for (name, value) in env {
        let well_formed = name.starts_with(|first: char| first.is_ascii_uppercase())
            && name.len() <= 64
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        if !well_formed {
            return invalid(format!("env.{name}: a name has 1 to 64 characters of A-Z, 0-9 and _"));
        }
        let reserved = ["PATH", "HOME"].contains(&name.as_str())
            || ["LD_", "CODEX_", "AGENTRUN_"].iter().any(|prefix| name.starts_with(prefix));
        if reserved || crate::model::redact::is_secret_name(name) {
            return invalid(format!("env.{name} is not accepted"));
        }
        if value.contains('\0') {
            return invalid(format!("env.{name} must not have control characters"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_a_process_or_is_a_secret_is_no_setting() {
        let check = |name: &str| check_env(&BTreeMap::from([(name.to_owned(), "x".to_owned())]));
        assert!(check("LOG_LEVEL").is_ok() && check("A1").is_ok());
        let refused =
            ["PATH", "HOME", "LD_PRELOAD", "CODEX_HOME", "AGENTRUN_X", "MY_TOKEN", "API_KEY", "a", "", "1A"];
        for name in refused {
            assert!(check(name).is_err(), "{name}");
        }
        let many: BTreeMap<String, String> = (0..33).map(|n| (format!("A{n}"), String::new())).collect();
        assert!(check_env(&many).is_err());
        assert!(check_env(&BTreeMap::from([("A".to_owned(), "x".repeat(5000))])).is_err());
    }
}
