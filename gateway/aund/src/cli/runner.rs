//! `aund runner`: works on a run of a manager, on this machine or another one.

use crate::output;
use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use proto_schemas::requests::runner::ClaimedRun;
use runner::{
    BackEndProgram, CodexFiles, CodexStdio, ManagerUrl, ProcessJsonl, RunnerOutcome, RunnerSecrets,
    RunnerSettings, RunnerToken, work,
};
use serde_json::Value;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The profile that needs neither a program nor a credential.
const EXAMPLE: &str = "example";
/// The variables of this process that a back end gets. Everything else may be a secret of somebody else.
const PASSED: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];
/// No token and no credential is larger.
const MOST_SECRET: u64 = 64 << 10;
/// No configuration of a back end is larger.
const MOST_CONFIG: u64 = 1 << 20;
/// How long whoever starts a runner may take to give it its token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Args)]
pub(super) struct RunnerCommand {
    /// The base URL of the manager, such as https://gateway.agents.localhost:20001
    #[arg(long, value_name = "URL")]
    manager: ManagerUrl,
    /// The run to work on
    #[arg(long)]
    run: String,
    /// The attempt of the runner job
    #[arg(long)]
    attempt: String,
    /// The command that the runner is started for; if it has ended, the runner leaves at once
    #[arg(long)]
    command: Option<String>,
    /// The provider profile of the run
    #[arg(long, value_name = "NAME", default_value = EXAMPLE)]
    profile: String,
    /// What the program of the back end speaks
    #[arg(long, value_name = "KIND", default_value = "process-jsonl")]
    backend: BackEndKind,
    /// The folder in which the back end works
    #[arg(long, value_name = "DIR")]
    workspace: PathBuf,
    /// Read the token from this file [default: from standard input]
    #[arg(long, value_name = "FILE", conflicts_with = "token_fd")]
    token_file: Option<PathBuf>,
    /// Read the token from this inherited file descriptor
    #[arg(long, value_name = "N", default_value_t = 0)]
    token_fd: u32,
    /// The root certificate of the manager [default: the authorities of the public web]
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// codex-stdio: the folder in which Codex keeps its threads, the same for every runner of a session
    #[arg(long, value_name = "DIR", required_if_eq("backend", "codex-stdio"))]
    storage: Option<PathBuf>,
    /// codex-stdio: give Codex this file as its config.toml
    #[arg(long, value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// Read the credential of the profile from this file
    #[arg(long, value_name = "FILE")]
    credential_file: Option<PathBuf>,
    /// The variable in which the back end gets the credential; without a file its value is that of this process
    #[arg(long, value_name = "NAME")]
    credential_env: Option<String>,
    /// Pass this variable to the back end as well; repeatable
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,
    /// How long the lease lasts unless it is renewed
    #[arg(long, value_name = "MS", default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(5_000..=600_000))]
    lease_ms: u64,
    /// How long the runner stays without work
    #[arg(long, value_name = "MS", default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1_000..=3_600_000))]
    idle_timeout_ms: u64,
    /// The program of the back end with its arguments [default for codex-stdio: codex app-server; for the profile example: aund
    /// example-backend]
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// What the program of a back end speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BackEndKind {
    ProcessJsonl,
    CodexStdio,
}

impl RunnerCommand {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let mut secrets = self.secrets()?;
        let files = self.codex_files()?;
        files.iter().flat_map(CodexFiles::secrets).for_each(|secret| secrets.add(secret));
        let program = self.back_end(&secrets)?;
        let settings = RunnerSettings {
            manager: self.manager.clone(),
            root: self.root.clone(),
            token: RunnerToken::read(&self.token().await?)?,
            run: self.run,
            attempt: self.attempt,
            command: self.command,
            profile: self.profile,
            lease: Duration::from_millis(self.lease_ms),
            idle: Duration::from_millis(self.idle_timeout_ms),
        };
        let stop = CancellationToken::new();
        let mut signals = JoinSet::new();
        signals.spawn(cancelled_by_signal(stop.clone())?);
        let outcome = match files {
            None => {
                let make = |claimed: &ClaimedRun| ProcessJsonl::new(program, session_state(claimed).as_ref());
                work(settings, &secrets, make, stop).await?
            }
            Some(files) => {
                let make = |claimed: &ClaimedRun| {
                    let policy = &claimed.run.execution_policy;
                    CodexStdio::new(program, files, policy, session_state(claimed).as_ref())
                };
                work(settings, &secrets, make, stop).await?
            }
        };
        match outcome {
            RunnerOutcome::Released => output::note("nothing is left to do"),
            RunnerOutcome::RunEnded => output::note("the run has ended"),
            RunnerOutcome::Stopped => output::note("stopped"),
            RunnerOutcome::LeaseLost => bail!("another runner has the lease of the run"),
        }
        Ok(())
    }

    async fn token(&self) -> anyhow::Result<String> {
        if let Some(file) = &self.token_file {
            return secret_of(file);
        }
        let file = format!("/dev/fd/{}", self.token_fd);
        let (read, token) = oneshot::channel();
        // A pipe that nobody writes into is read by a thread that ends with the process.
        std::thread::spawn(move || read.send(secret_of(Path::new(&file))));
        let token = timeout(TOKEN_TIMEOUT, token).await;
        token.context("the token has not come in time: give it on standard input, or with --token-file")??
    }

    /// The credential of the profile, and where the back end gets it.
    fn secrets(&self) -> anyhow::Result<RunnerSecrets> {
        let mut secrets = RunnerSecrets::default();
        match (&self.credential_file, &self.credential_env) {
            (None, None) => {}
            (Some(file), None) => secrets.add(secret_of(file)?),
            (Some(file), Some(name)) => secrets.add_variable(name, secret_of(file)?.trim()),
            (None, Some(name)) => {
                let value = environment(name).and_then(|value| value.into_string().ok());
                secrets.add_variable(name, value.with_context(|| format!("{name} is not set"))?);
            }
        }
        Ok(secrets)
    }

    /// What Codex gets, if the back end is Codex. A credential that it gets in a variable is in no file.
    fn codex_files(&self) -> anyhow::Result<Option<CodexFiles>> {
        let Some(storage) = self.storage.as_ref().filter(|_| self.backend == BackEndKind::CodexStdio) else {
            return Ok(None);
        };
        let credential = self.credential_file.as_ref().filter(|_| self.credential_env.is_none());
        Ok(Some(CodexFiles {
            storage: std::path::absolute(storage)
                .with_context(|| format!("{} is not a folder", storage.display()))?,
            credential: credential.map(|file| secret_of(file)).transpose()?,
            config: self.config_file.as_ref().map(|file| text_of(file, MOST_CONFIG)).transpose()?,
        }))
    }

    fn back_end(&self, secrets: &RunnerSecrets) -> anyhow::Result<BackEndProgram> {
        let workspace = fs::canonicalize(&self.workspace)
            .with_context(|| format!("{} is not a workspace", self.workspace.display()))?;
        let (program, arguments) = match (self.program.split_first(), self.profile.as_str()) {
            (Some((program, arguments)), _) => (PathBuf::from(program), arguments.to_vec()),
            (None, _) if self.backend == BackEndKind::CodexStdio => {
                (PathBuf::from("codex"), vec!["app-server".to_owned()])
            }
            (None, EXAMPLE) => (env::current_exe()?, vec!["example-backend".to_owned()]),
            (None, profile) => bail!("the profile {profile} needs a program: write it at the end, after --"),
        };
        let names = PASSED.iter().copied().chain(self.pass_env.iter().map(String::as_str));
        let passed = names.filter_map(|name| Some((OsString::from(name), environment(name)?)));
        let secret = secrets.variables().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Ok(BackEndProgram { program, arguments, workspace, environment: passed.chain(secret).collect() })
    }
}

/// Asks the work to end with SIGTERM or SIGINT.
fn cancelled_by_signal(stop: CancellationToken) -> io::Result<impl Future<Output = ()> + Send> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    })
}

/// What an earlier runner of the session said of its back end.
fn session_state(claimed: &ClaimedRun) -> Option<Value> {
    serde_json::from_str(claimed.session_state.as_ref()?.get()).ok()
}

fn secret_of(file: &Path) -> anyhow::Result<String> {
    text_of(file, MOST_SECRET)
}

fn text_of(file: &Path, most: u64) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = File::open(file).and_then(|open| open.take(most).read_to_string(&mut text));
    read.with_context(|| format!("{} cannot be read", file.display()))?;
    Ok(text)
}

#[expect(
    clippy::disallowed_methods,
    reason = "these are not settings of ours: a program gets its own environment"
)]
fn environment(name: &str) -> Option<OsString> {
    env::var_os(name)
}
