//! `aund runner`: works on a run of a manager, on this machine or another one.

use crate::output;
use anyhow::{Context as _, bail};
use clap::Args;
use runner::{
    BackEndProgram, ManagerUrl, ProcessJsonl, RunnerOutcome, RunnerSecrets, RunnerSettings, RunnerToken, work,
};
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
    /// The program of the back end with its arguments [default for the profile example: aund example-backend]
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

impl RunnerCommand {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let secrets = self.secrets()?;
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
        let outcome = work(
            settings,
            &secrets,
            |claimed| {
                let state = claimed.session_state.as_ref();
                let state = state.and_then(|state| serde_json::from_str(state.get()).ok());
                ProcessJsonl::new(program, state.as_ref())
            },
            stop,
        )
        .await?;
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

    fn back_end(&self, secrets: &RunnerSecrets) -> anyhow::Result<BackEndProgram> {
        let workspace = fs::canonicalize(&self.workspace)
            .with_context(|| format!("{} is not a workspace", self.workspace.display()))?;
        let (program, arguments) = match (self.program.split_first(), self.profile.as_str()) {
            (Some((program, arguments)), _) => (PathBuf::from(program), arguments.to_vec()),
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

fn secret_of(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = File::open(file).and_then(|open| open.take(MOST_SECRET).read_to_string(&mut text));
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
