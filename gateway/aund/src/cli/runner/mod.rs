//! `aund runner`: works on a run of a manager, on this machine or another one.

mod input;
mod isolation;

use crate::output;
use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use input::{CredentialInput, api_key};
use isolation::BackEndIsolation;
use proto_schemas::requests::runner::ClaimedRun;
use runner::{
    BackEndProgram, CodexFiles, CodexStdio, ManagerUrl, ProcessJsonl, ResourceLimit, RunnerOutcome,
    RunnerSecrets, RunnerSettings, RunnerToken, begin_process_session, work,
};
use serde_json::Value;
use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
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
const PASSED: [&str; 11] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    // By which the launcher of a job finds the processes of the job.
    "AGENTRUN_JOB_ID",
];
/// No token and no credential is larger.
const MOST_SECRET: u64 = 64 << 10;
/// No configuration of a back end is larger.
const MOST_CONFIG: u64 = 1 << 20;
/// A token, a credential and a configuration.
const MOST_INPUT: u64 = MOST_CONFIG + 2 * MOST_SECRET;
/// How long whoever starts a runner may take to give it its token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(super) struct RunnerCommand {
    /// The base URL of the manager, such as https://gateway.agents.localhost:20001
    #[arg(long, value_name = "URL")]
    manager: ManagerUrl,
    /// Connect to this address in place of resolving the host of the manager
    #[arg(long, value_name = "ADDR:PORT")]
    dial: Option<SocketAddr>,
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
    /// Read a JSON object with token, authJson and configToml in place of the token; authJson is the credential of the profile,
    /// configToml the config.toml of Codex
    #[arg(long, conflicts_with_all = ["credential_file", "config_file"])]
    credential_input: bool,
    /// The root certificate of the manager [default: the authorities of the public web]
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// The folder in which the back end keeps its threads, the same for every runner of a session; required for codex-stdio
    #[arg(long, value_name = "DIR", required_if_eq("backend", "codex-stdio"))]
    storage: Option<PathBuf>,
    /// codex-stdio: give Codex this file as its config.toml
    #[arg(long, value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// Read the credential of the profile from this file
    #[arg(long, value_name = "FILE")]
    credential_file: Option<PathBuf>,
    /// The variable in which the back end gets the credential, or the API key in authJson; without a credential its value is that of this
    /// process
    #[arg(long, value_name = "NAME")]
    credential_env: Option<String>,
    /// Pass this variable to the back end as well; repeatable
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,
    /// Begin a process session, which everything that the runner starts belongs to
    #[arg(long)]
    own_session: bool,
    /// Limit this process and those that it starts: open-files, file-bytes, memory-bytes (of address space) or core-bytes; repeatable
    #[arg(long, value_name = "NAME=N")]
    limit: Vec<ResourceLimit>,
    /// Start the back end in Bubblewrap (bwrap), where it may write only the workspace, the storage, HOME and TMPDIR
    #[arg(long)]
    isolate: bool,
    /// Show this folder to an isolated back end as an empty one; repeatable
    #[arg(long, value_name = "DIR", requires = "isolate")]
    hide: Vec<PathBuf>,
    /// Do not let an isolated back end write the workspace
    #[arg(long, requires = "isolate")]
    read_only_workspace: bool,
    /// Let an isolated back end write everything that is not hidden
    #[arg(long, requires = "isolate", conflicts_with = "read_only_workspace")]
    full_access: bool,
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
        self.prepare_process()?;
        let storage = self.storage_folder()?;
        let mut program = self.back_end(storage.as_deref())?;
        let given = self.given().await?;
        let mut secrets = self.secrets(&given)?;
        let token = RunnerToken::read(&given.token)?;
        let files = self.codex_files(given, storage);
        files.iter().flat_map(CodexFiles::secrets).for_each(|secret| secrets.add(secret));
        let variables = secrets.variables();
        let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        program.environment.extend(variables);
        let settings = RunnerSettings {
            manager: self.manager,
            root: self.root,
            dial: self.dial,
            token,
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

    /// What everything that is started from here on inherits.
    fn prepare_process(&self) -> anyhow::Result<()> {
        if self.own_session {
            let begun = begin_process_session();
            begun.context(
                "the runner cannot begin a session: --own-session is not for the leader of a process group",
            )?;
        }
        for limit in &self.limit {
            limit.set().with_context(|| format!("the limit {limit} cannot be set"))?;
        }
        Ok(())
    }

    /// The token and what comes with it, from the input or from files.
    async fn given(&self) -> anyhow::Result<CredentialInput> {
        let auth_json = self.credential_file.as_ref().map(|file| text_of(file, MOST_SECRET)).transpose()?;
        let config_toml = self.config_file.as_ref().map(|file| text_of(file, MOST_CONFIG)).transpose()?;
        let input = self.input().await?;
        ensure!(!input.trim().is_empty(), "the input has ended without a token");
        match self.credential_input {
            true => CredentialInput::read(&input),
            false => Ok(CredentialInput { token: input, auth_json, config_toml }),
        }
    }

    /// The whole input, to its end.
    async fn input(&self) -> anyhow::Result<String> {
        let most = if self.credential_input { MOST_INPUT } else { MOST_SECRET };
        if let Some(file) = &self.token_file {
            return text_of(file, most);
        }
        let file = format!("/dev/fd/{}", self.token_fd);
        let (read, input) = oneshot::channel();
        // A pipe that nobody writes into is read by a thread that ends with the process.
        std::thread::spawn(move || read.send(text_of(Path::new(&file), most)));
        let input = timeout(TOKEN_TIMEOUT, input).await;
        input.context("the token has not come in time: give it on standard input, or with --token-file")??
    }

    /// The credential of the profile, and where the back end gets it.
    fn secrets(&self, given: &CredentialInput) -> anyhow::Result<RunnerSecrets> {
        let mut secrets = RunnerSecrets::default();
        match (&given.auth_json, &self.credential_env) {
            (None, None) => {}
            (Some(credential), None) => secrets.add(credential),
            (Some(credential), Some(name)) => {
                let credential = credential.trim();
                let value = if self.credential_input { api_key(credential) } else { credential.to_owned() };
                secrets.add_variable(name, value);
                secrets.add(credential);
            }
            (None, Some(name)) if self.credential_input => {
                bail!("the input has no authJson, from which --credential-env {name} takes its value")
            }
            (None, Some(name)) => {
                let value = environment(name).and_then(|value| value.into_string().ok());
                secrets.add_variable(name, value.with_context(|| format!("{name} is not set"))?);
            }
        }
        Ok(secrets)
    }

    /// The storage as an absolute path. An isolated back end sees only a folder that exists, so it is made before.
    fn storage_folder(&self) -> anyhow::Result<Option<PathBuf>> {
        let Some(storage) = &self.storage else { return Ok(None) };
        let folder = match self.isolate {
            true => {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(storage);
                made.and_then(|()| fs::canonicalize(storage))
            }
            false => std::path::absolute(storage),
        };
        Ok(Some(folder.with_context(|| format!("{} is not a folder", storage.display()))?))
    }

    /// What Codex gets, if the back end is Codex. A credential that it gets in a variable is in no file.
    fn codex_files(&self, given: CredentialInput, storage: Option<PathBuf>) -> Option<CodexFiles> {
        let storage = storage.filter(|_| self.backend == BackEndKind::CodexStdio)?;
        let credential = given.auth_json.filter(|_| self.credential_env.is_none());
        Some(CodexFiles { storage, credential, config: given.config_toml })
    }

    /// The program without its secrets.
    fn back_end(&self, storage: Option<&Path>) -> anyhow::Result<BackEndProgram> {
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
        let program = BackEndProgram { program, arguments, workspace, environment: passed.collect() };
        match self.isolate {
            true => self.isolation(storage)?.isolated(program),
            false => Ok(program),
        }
    }

    fn isolation(&self, storage: Option<&Path>) -> anyhow::Result<BackEndIsolation> {
        let hidden = self.hide.iter().map(|folder| {
            let whole = fs::canonicalize(folder);
            whole.with_context(|| format!("--hide {} is not a folder", folder.display()))
        });
        // A user may have no home.
        let own = ["HOME", "TMPDIR"].into_iter().filter_map(|name| fs::canonicalize(environment(name)?).ok());
        Ok(BackEndIsolation {
            hidden: hidden.collect::<anyhow::Result<_>>()?,
            writable: own.chain(storage.map(Path::to_owned)).collect(),
            is_workspace_read_only: self.read_only_workspace,
            has_full_access: self.full_access,
        })
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

fn text_of(file: &Path, most: u64) -> anyhow::Result<String> {
    let mut text = Vec::new();
    let read = File::open(file).and_then(|open| open.take(most + 1).read_to_end(&mut text));
    read.with_context(|| format!("{} cannot be read", file.display()))?;
    ensure!(text.len() as u64 <= most, "{} has more than {most} bytes", file.display());
    String::from_utf8(text).ok().with_context(|| format!("{} is not text", file.display()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "these are not settings of ours: a program gets its own environment"
)]
fn environment(name: &str) -> Option<OsString> {
    env::var_os(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct ParsedRunner {
        #[command(flatten)]
        command: RunnerCommand,
    }

    fn parsed(options: &[&str]) -> Result<RunnerCommand, clap::Error> {
        let job =
            ["runner", "--manager=https://agents.example", "--run=r", "--attempt=a", "--workspace=/tmp"];
        ParsedRunner::try_parse_from(job.iter().chain(options).copied()).map(|parsed| parsed.command)
    }

    /// The command with a file as its input.
    async fn given(text: &str, options: &[&str]) -> anyhow::Result<(RunnerCommand, CredentialInput)> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("input");
        fs::write(&file, text).unwrap();
        let file = format!("--token-file={}", file.display());
        let options = [[file.as_str()].as_slice(), options].concat();
        let command = parsed(&options).unwrap();
        let given = command.given().await?;
        Ok((command, given))
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for options in [
            ["--credential-input", "--credential-file=f"].as_slice(),
            &["--credential-input", "--config-file=f"],
            &["--isolate", "--full-access", "--read-only-workspace"],
            &["--full-access"],
            &["--read-only-workspace"],
            &["--hide=/data"],
            &["--limit=processes=1"],
            &["--dial=agents.example:443"],
            &["--backend=codex-stdio"],
        ] {
            assert!(parsed(options).is_err(), "{options:?}");
        }
        let options = ["--isolate", "--hide=/a", "--hide=/b", "--full-access", "--storage=/s"];
        assert_eq!(parsed(&options).unwrap().hide, [Path::new("/a"), Path::new("/b")]);
        let options = ["--own-session", "--credential-input", "--limit=core-bytes=0", "--dial=[::1]:7"];
        assert!(parsed(&options).is_ok());
    }

    #[tokio::test]
    async fn the_input_has_the_credential_and_none_of_it_is_said() {
        let options = ["--credential-input", "--backend=codex-stdio", "--storage=/s"];
        let input =
            r#"{"token": "arr_1", "authJson": "{\"OPENAI_API_KEY\": \"sk-1\"}", "configToml": "model = 1"}"#;
        let (command, input) = given(input, &options).await.unwrap();
        assert_eq!(command.secrets(&input).unwrap().variables().count(), 0);
        assert_eq!(input.token, "arr_1");
        let files = command.codex_files(input, command.storage_folder().unwrap()).unwrap();
        assert_eq!(files.storage, Path::new("/s"));
        assert_eq!(files.credential.as_deref(), Some(r#"{"OPENAI_API_KEY": "sk-1"}"#));
        assert_eq!(files.config.as_deref(), Some("model = 1"));
    }

    #[tokio::test]
    async fn a_variable_has_the_api_key_of_the_input() {
        let options = ["--credential-input", "--credential-env=KEY", "--backend=codex-stdio", "--storage=/s"];
        let input = r#"{"token": "arr_1", "authJson": "{\"OPENAI_API_KEY\": \"sk-1\"}"}"#;
        let (command, input) = given(input, &options).await.unwrap();
        let secrets = command.secrets(&input).unwrap();
        assert_eq!(secrets.variables().collect::<Vec<_>>(), [("KEY", "sk-1")]);
        assert!(command.codex_files(input, command.storage_folder().unwrap()).unwrap().credential.is_none());

        let (command, input) = given(r#"{"token": "arr_1"}"#, &options).await.unwrap();
        assert!(command.secrets(&input).is_err());
    }

    #[tokio::test]
    async fn an_input_without_a_token_is_refused_at_once() {
        let credential: &[&str] = &["--credential-input"];
        for options in [credential, &[]] {
            let refused = given("\n", options).await.err().unwrap().to_string();
            assert_eq!(refused, "the input has ended without a token");
        }
        let large = "a".repeat(65_537);
        assert!(given(&large, &[]).await.err().unwrap().to_string().contains("more than 65536 bytes"));
    }
}
