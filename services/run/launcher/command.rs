//! The command line and the environment of a runner that this server starts.

use super::folders::JobFolders;
use super::process::JOB_VARIABLE;
use crate::settings::{LocalRunnerSettings, ProfileSettings};
use kernel::OwnGateway;
use proto_schemas::requests::run::{RunnerIsolation, Sandbox};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The variables of this process that a runner gets. Everything else may be a secret.
const PASSED: [&str; 8] = ["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SHELL"];

/// Where a runner finds the manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManagerAddress {
    pub url: String,
    pub root: Option<PathBuf>,
    /// What is dialled in place of the host.
    pub dial: Option<String>,
}

impl ManagerAddress {
    pub fn of_gateway(gateway: &OwnGateway) -> ManagerAddress {
        ManagerAddress {
            url: gateway.url.clone(),
            root: gateway.root.clone(),
            dial: Some(gateway.address.to_string()),
        }
    }
}

/// What a runner is told of its work.
#[derive(Clone, Debug)]
pub(super) struct RunnerWork {
    pub run_id: String,
    pub command_id: String,
    pub attempt: String,
    pub job_id: String,
    pub profile: String,
    pub backend_kind: &'static str,
    pub idle_timeout_ms: i64,
    pub env: BTreeMap<String, String>,
    pub sandbox: Sandbox,
    pub isolation: RunnerIsolation,
    pub workspace: PathBuf,
    pub storage: PathBuf,
}

/// A process that is about to be started. Nothing else is inherited.
#[derive(Debug)]
pub(super) struct RunnerArguments {
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
}

impl RunnerArguments {
    pub fn new(
        work: &RunnerWork,
        manager: &ManagerAddress,
        folders: &JobFolders,
        (limits, profile): (&LocalRunnerSettings, Option<&ProfileSettings>),
        hidden: &[PathBuf],
    ) -> RunnerArguments {
        let mut arguments = Arguments::default();
        arguments.word("runner").word("--own-session").word("--credential-input");
        arguments.pair("--manager", &manager.url);
        arguments.some("--root", manager.root.as_deref()).some("--dial", manager.dial.as_deref());
        arguments.pair("--run", &work.run_id).pair("--attempt", &work.attempt);
        arguments.pair("--command", &work.command_id).pair("--profile", &work.profile);
        arguments.pair("--backend", work.backend_kind);
        arguments.pair("--workspace", &work.workspace).pair("--storage", &work.storage);
        arguments.pair("--idle-timeout-ms", work.idle_timeout_ms.to_string());
        arguments.pair("--limit", "core-bytes=0");
        arguments.pair("--limit", format!("open-files={}", limits.open_files));
        arguments.pair("--limit", format!("file-bytes={}", limits.file_bytes));
        if limits.memory_bytes > 0 {
            arguments.pair("--limit", format!("memory-bytes={}", limits.memory_bytes));
        }
        for name in work.env.keys() {
            arguments.pair("--pass-env", name);
        }
        if work.isolation == RunnerIsolation::Bwrap {
            arguments.word("--isolate");
            hidden.iter().for_each(|folder| {
                arguments.pair("--hide", folder);
            });
            match work.sandbox {
                Sandbox::ReadOnly => arguments.word("--read-only-workspace"),
                Sandbox::WorkspaceWrite => &mut arguments,
                Sandbox::DangerFullAccess => arguments.word("--full-access"),
            };
        }
        let (variable, program) = match profile {
            Some(profile) => (profile.credential_env.as_deref(), profile.program.as_slice()),
            None => (None, [].as_slice()),
        };
        arguments.some("--credential-env", variable);
        if !program.is_empty() {
            arguments.word("--");
            program.iter().for_each(|word| {
                arguments.word(word);
            });
        }

        let passed = PASSED.iter().filter_map(|name| Some((OsString::from(name), environment(name)?)));
        let given = work.env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let own = [
            (OsString::from("HOME"), folders.home.clone().into_os_string()),
            (OsString::from("TMPDIR"), folders.temporary.clone().into_os_string()),
            (OsString::from(JOB_VARIABLE), OsString::from(&work.job_id)),
        ];
        let environment = passed.chain(given).chain(own).collect();
        RunnerArguments { arguments: arguments.0, environment }
    }
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn word(&mut self, word: impl AsRef<OsStr>) -> &mut Arguments {
        self.0.push(word.as_ref().to_owned());
        self
    }

    /// With a `=` between them: a value may begin with a dash.
    fn pair(&mut self, name: &str, value: impl AsRef<OsStr>) -> &mut Arguments {
        let mut word = OsString::from(name);
        word.push("=");
        word.push(value);
        self.word(word)
    }

    fn some(&mut self, name: &str, value: Option<impl AsRef<OsStr>>) -> &mut Arguments {
        match value {
            Some(value) => self.pair(name, value),
            None => self,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "these are not settings of ours: a runner gets a few variables of this process"
)]
fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The folders that a back end must not see, as it could name them. One in another one needs no line of its own.
pub(super) fn hidden_folders(data: &Path, keys: &Path) -> Vec<PathBuf> {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (data, keys) = (whole(data), whole(keys));
    match (keys.starts_with(&data), data.starts_with(&keys)) {
        (true, _) => vec![data],
        (false, true) => vec![keys],
        (false, false) => vec![data, keys],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> RunnerWork {
        RunnerWork {
            run_id: "run_1".to_owned(),
            command_id: "cmd_1".to_owned(),
            attempt: "-attempt".to_owned(),
            job_id: "rjob_1".to_owned(),
            profile: "codex".to_owned(),
            backend_kind: "codex-stdio",
            idle_timeout_ms: 1000,
            env: BTreeMap::from([("LEVEL".to_owned(), "debug".to_owned())]),
            sandbox: Sandbox::ReadOnly,
            isolation: RunnerIsolation::Bwrap,
            workspace: PathBuf::from("/work"),
            storage: PathBuf::from("/data/sessions/s"),
        }
    }

    fn line(work: &RunnerWork, profile: Option<&ProfileSettings>) -> RunnerArguments {
        let manager = ManagerAddress {
            url: "https://gateway.agents.localhost:20001".to_owned(),
            root: Some(PathBuf::from("/data/pki/root.crt")),
            dial: Some("127.0.0.1:20001".to_owned()),
        };
        let folders = JobFolders { home: "/h".into(), temporary: "/t".into(), log: "/l".into() };
        let limits = LocalRunnerSettings::default();
        RunnerArguments::new(work, &manager, &folders, (&limits, profile), &[PathBuf::from("/data")])
    }

    fn words(line: &RunnerArguments) -> Vec<&str> {
        line.arguments.iter().map(|word| word.to_str().unwrap()).collect()
    }

    #[test]
    fn a_runner_is_told_its_work_and_no_secret() {
        let line = line(&work(), None);
        let words = words(&line);
        for word in [
            "--manager=https://gateway.agents.localhost:20001",
            "--root=/data/pki/root.crt",
            "--dial=127.0.0.1:20001",
            "--attempt=-attempt",
            "--storage=/data/sessions/s",
            "--limit=open-files=4096",
            "--pass-env=LEVEL",
            "--isolate",
            "--hide=/data",
            "--read-only-workspace",
        ] {
            assert!(words.contains(&word), "{word}: {words:?}");
        }
        assert!(
            !words.iter().any(|word| word.starts_with("--token") || word.contains("memory")),
            "{words:?}"
        );
        let names: Vec<&str> = line.environment.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert!(names.contains(&"AGENTRUN_JOB_ID") && names.contains(&"LEVEL"), "{names:?}");
        assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
        let home = line.environment.iter().find(|(name, _)| name == "HOME").unwrap();
        assert_eq!(home.1, "/h");
    }

    #[test]
    fn a_profile_has_a_program_of_its_own() {
        let profile = ProfileSettings {
            kind: None,
            program: vec!["/opt/agent".to_owned(), "--fast".to_owned()],
            credential_env: Some("AGENT_KEY".to_owned()),
        };
        let free = RunnerWork { isolation: RunnerIsolation::None, ..work() };
        let line = line(&free, Some(&profile));
        let words = words(&line);
        assert!(words.ends_with(&["--credential-env=AGENT_KEY", "--", "/opt/agent", "--fast"]), "{words:?}");
        assert!(!words.contains(&"--isolate"));
    }

    #[test]
    fn a_folder_in_a_hidden_one_is_hidden_with_it() {
        let hidden = |data: &str, keys: &str| hidden_folders(Path::new(data), Path::new(keys));
        assert_eq!(hidden("/data", "/data"), [PathBuf::from("/data")]);
        assert_eq!(hidden("/data", "/data/keys"), [PathBuf::from("/data")]);
        assert_eq!(hidden("/keys/data", "/keys"), [PathBuf::from("/keys")]);
        assert_eq!(hidden("/data", "/keys"), [PathBuf::from("/data"), PathBuf::from("/keys")]);
    }
}
