//! The start of a runner.

use super::command::{RunnerArguments, RunnerWork};
use super::credential::{RunnerInput, config_of};
use super::folders::JobFolders;
use super::{KnownRunner, process};
use crate::RunService;
use crate::known_profiles::is_slug;
use crate::model::call::{CallAccess, RunOperation};
use crate::model::fixed::RunFixed;
use crate::model::run::{JobRow, RunnerProcessId};
use crate::secrets::{AUTH_JSON, CONFIG_TOML, StoredCredential};
use crate::store::RunFacts;
use anyhow::Context as _;
use kernel::files::make_folder;
use proto_schemas::requests::run::RunnerIsolation;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::sync::OwnedSemaphorePermit;

/// A job whose row is stored and whose runner is not started yet.
pub(crate) struct LocalLaunch {
    pub run: RunFacts,
    pub job: JobRow,
    pub token: String,
    /// Its place among the runners of this server.
    pub slot: OwnedSemaphorePermit,
}

impl RunService {
    /// Starts the runner of a job, and stores which process it is. What has begun is done also if the caller leaves. Where it cannot be
    /// started, the job has failed, and its run says why.
    pub(crate) async fn launch(self: &Arc<Self>, launch: LocalLaunch) {
        let service = self.clone();
        let started = self.tracker.spawn(async move {
            let (run_id, job_id) = (launch.run.row.id.clone(), launch.job.id.clone());
            let log_ref = launch.job.log_ref.clone();
            if let Err(error) = service.start(launch).await {
                tracing::warn!(run = run_id, job = job_id, "a runner could not be started: {error:#}");
                let message = format!("the runner could not be started: {error:#}");
                service.process_over(&run_id, &job_id, true, Some(message)).await;
                service.remove_homes(log_ref).await;
            }
        });
        if started.await.is_err() {
            tracing::error!("the start of a runner has panicked");
        }
    }

    async fn start(self: &Arc<Self>, launch: LocalLaunch) -> anyhow::Result<()> {
        let LocalLaunch { run, job, token, slot } = launch;
        let fixed: RunFixed = serde_json::from_str(&run.fixed)?;
        let credential = self.credential_of(&fixed).await?;
        let work = self.work_of(&run, &job, &fixed)?;
        let (folders, log) = self.folders_of(&job, &work).await?;
        let mut child = self.spawn(&work, &folders, log)?;
        let process = match self.told(&run, &job, &mut child, &token, &credential).await {
            Ok(process) => process,
            Err(error) => {
                child.kill().await.context("it could not be ended")?;
                return Err(error);
            }
        };
        self.metrics.runners.inc();
        let (run_id, log_ref) = (run.row.id, job.log_ref);
        let known = KnownRunner { process, log_ref, storage: work.storage, run_id, is_stopping: false };
        self.watch_runner(job.id, known, Some(child), Some(slot));
        Ok(())
    }

    /// The folder of the session, or that of the run.
    pub(super) fn storage_path(&self, run: &RunFacts) -> io::Result<PathBuf> {
        match &run.row.session {
            Some(session) => std::path::absolute(self.storage.path(session)?),
            None => Ok(self.launcher.folders.storage_of(&run.row.id)),
        }
    }

    fn work_of(&self, run: &RunFacts, job: &JobRow, fixed: &RunFixed) -> anyhow::Result<RunnerWork> {
        let storage = self.storage_path(run)?;
        let workspace = match fixed.folder() {
            Some((root, path)) => {
                let known = self.settings.workspaces.get(&root);
                known.with_context(|| format!("workspace {root} is not configured any more"))?.path.join(path)
            }
            None => storage.join("workspace"),
        };
        Ok(RunnerWork {
            run_id: run.row.id.clone(),
            command_id: job.command_id.clone(),
            attempt: job.attempt.clone(),
            job_id: job.id.clone(),
            profile: fixed.backend_profile.clone(),
            backend_kind: self.settings.kind_of(&fixed.backend_profile).as_str(),
            idle_timeout_ms: job.idle_timeout_ms,
            env: serde_json::from_str(&job.env)?,
            sandbox: fixed.execution_policy.sandbox,
            isolation: job.isolation.unwrap_or(RunnerIsolation::None),
            workspace,
            storage,
        })
    }

    /// A folder that somebody has named has to be there. One of the server's own is made.
    async fn folders_of(&self, job: &JobRow, work: &RunnerWork) -> anyhow::Result<(JobFolders, File)> {
        let (folders, log_ref) = (self.launcher.folders.clone(), job.log_ref.clone());
        let own = work.workspace.starts_with(&work.storage).then(|| work.workspace.clone());
        let storage = work.storage.clone();
        let made = tokio::task::spawn_blocking(move || {
            make_folder(&storage)?;
            own.as_deref().map_or(Ok(()), make_folder)?;
            folders.make(&log_ref)
        });
        made.await?.context("its folders could not be made")
    }

    fn spawn(&self, work: &RunnerWork, folders: &JobFolders, log: File) -> anyhow::Result<Child> {
        let manager = self.launcher.manager().context("the URL of this server is not known")?;
        let profile = (self.settings.profiles.get(&work.profile), &self.settings.runner);
        let line =
            RunnerArguments::new(work, &manager, folders, (profile.1, profile.0), &self.launcher.hidden);
        let mut command = Command::new(&self.launcher.program);
        command.args(&line.arguments).env_clear().envs(line.environment).current_dir(&folders.home);
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        command.spawn().with_context(|| format!("{}", self.launcher.program.display()))
    }

    /// Stores which process it is, and then gives it what it needs: without its token it does nothing.
    async fn told(
        &self,
        run: &RunFacts,
        job: &JobRow,
        child: &mut Child,
        token: &str,
        credential: &StoredCredential,
    ) -> anyhow::Result<RunnerProcessId> {
        let process = child.id().and_then(process::identified).context("it has ended at once")?;
        let started = RunOperation::Started { job_id: job.id.clone(), process };
        self.submit(&run.row.id, CallAccess::System, started)
            .await
            .context("its process could not be stored")?;
        let key = |key: &str| credential.0.get(key).map(String::as_str);
        let input = RunnerInput { token, auth_json: key(AUTH_JSON), config_toml: key(CONFIG_TOML) };
        let mut stdin = child.stdin.take().context("it has no input")?;
        // One that has ended says in its log why.
        let _ = stdin.write_all(serde_json::to_string(&input)?.as_bytes()).await;
        Ok(process)
    }

    /// What the server has stored for the profile of a run. A credential that the caller has named may be elsewhere.
    async fn credential_of(&self, fixed: &RunFixed) -> anyhow::Result<StoredCredential> {
        let profile = &fixed.backend_profile;
        if !self.settings.needs_credential(profile) || !is_slug(profile) {
            return Ok(StoredCredential::default());
        }
        let mut credential = self.secrets.read(profile).await.context("its credential cannot be read")?;
        if !credential.0.contains_key(CONFIG_TOML)
            && let Some(row) = self.store.profile(profile).await?
            && let Some(config) = config_of(&row)
        {
            credential.0.insert(CONFIG_TOML.to_owned(), config);
        }
        Ok(credential)
    }

    pub(super) async fn remove_homes(&self, log_ref: String) {
        let folders = self.launcher.folders.clone();
        let removed = tokio::task::spawn_blocking(move || folders.remove_homes(&log_ref)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!("the home of a runner could not be removed: {error}");
        }
    }

    /// The storage of a run, when it is not needed any more.
    pub(super) async fn remove_own_storage(&self, run_id: String) {
        let folders = self.launcher.folders.clone();
        let removed = tokio::task::spawn_blocking(move || folders.remove_storage(&run_id)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!("the storage of a run could not be removed: {error}");
        }
    }
}

/// The program of runners is this one.
pub(super) fn own_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("the program of this process has no name")
}
