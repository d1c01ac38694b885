//! The table `[run]` of `aund.toml`.

use crate::known_profiles::{BUILT_IN, EXAMPLE, is_slug};
use kernel::ServiceSettings;
use proto_schemas::requests::run::{ApprovalMode, LauncherKind, NetworkAccess, RunnerIsolation, Sandbox};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The tenants that may have runs, by name.
    pub tenants: BTreeMap<String, TenantSettings>,
    /// The folders that runs may work in, by name.
    pub workspaces: BTreeMap<String, WorkspaceSettings>,
    /// How runners are started where a request does not say it. `local`: as processes on this machine. `external`: the caller starts them.
    /// Default: `local`, if it is known where the gateway is.
    pub launcher: Option<LauncherKind>,
    /// The base URL of this server for runners. Default: that of the gateway, if it runs in the same process.
    pub manager_url: Option<String>,
    /// The root certificate that the server at `manager_url` is verified with. Default: the authorities of the public web.
    pub manager_root: Option<PathBuf>,
    /// The maximum number of runners that the server starts. 0: eight per processor core.
    pub local_runners: usize,
    /// What runners may use that the server starts.
    pub runner: LocalRunnerSettings,
    /// Which program works on the runs of a profile, by the name of the profile.
    pub profiles: BTreeMap<String, ProfileSettings>,
    /// The agents of this domain whose tasks runs work on, by AID.
    pub agents: BTreeMap<String, RunAgentSettings>,
    /// What works on the conversations of front ends.
    pub agui: FrontEndSettings,
    /// The tenant whose runs try whether profiles work. Default: the first tenant by name.
    pub validation_tenant: Option<String>,
    /// Where credentials of provider profiles are stored.
    pub secrets: SecretStoreKind,
    /// The maximum number of active runs per tenant: those with a lease or with a command that has not ended.
    pub active_runs: u32,
    /// The maximum number of waiting commands per run.
    pub waiting_commands: u32,
    /// Bytes of events that are stored per run.
    pub event_bytes: u64,
    /// How many days a run and its events are stored after it ends, and a session after its storage was removed.
    pub retention_days: u32,
    /// The maximum number of sessions with storage per tenant.
    pub sessions: u32,
    /// Bytes that the storage of a session may have. Above it, no runner is started for it.
    pub session_bytes: u64,
    /// After how many milliseconds expired sessions are looked for again.
    pub session_gc_interval_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TenantSettings {
    /// The AIDs that act for this tenant. `*` stands for every agent of this domain.
    pub aids: Vec<String>,
    /// The most that a policy may allow the back end to do to files.
    pub sandbox: Sandbox,
    /// Whether a policy may allow the back end to reach a network.
    pub network: NetworkAccess,
    /// The longest time-out of a policy.
    pub timeout_ms: i64,
    /// Bytes that are stored for the runs of this tenant.
    pub kept_bytes: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkspaceSettings {
    /// The folder.
    pub path: PathBuf,
    /// The tenants that may use it. Empty: all.
    pub tenants: Vec<String>,
}

/// What a runner that the server starts may use, with everything that it starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalRunnerSettings {
    /// How its back end is kept from other processes and files. Default: `bwrap`, if it works on this machine.
    pub isolation: Option<RunnerIsolation>,
    /// Files that one of its processes may have open.
    pub open_files: u64,
    /// Bytes that a file may have that it writes.
    pub file_bytes: u64,
    /// Bytes of memory that one of its processes may have. 0: no limit.
    pub memory_bytes: u64,
}

/// What works on the runs of a profile.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileSettings {
    /// What the program speaks: `codex-stdio` or `process-jsonl`. Default: `codex-stdio`.
    pub kind: Option<ProfileBackEnd>,
    /// The program and its arguments. Default for `codex-stdio`: `codex app-server`.
    pub program: Vec<String>,
    /// The variable in which the program gets the API key.
    pub credential_env: Option<String>,
}

/// How runs work on the tasks of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunAgentSettings {
    /// The tenant that the runs belong to.
    pub tenant: String,
    /// The project of the runs.
    pub project: String,
    /// Where the back end works. Default: an empty folder for each task.
    pub workspace: Option<RunAgentWorkspace>,
    /// The profile of the runs.
    pub profile: String,
    /// What the runs may do. What is left out has the defaults of `run.create`.
    pub policy: RunAgentPolicy,
}

/// A folder of `[run.workspaces.NAME]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunAgentWorkspace {
    /// The name of the folder.
    pub root: String,
    /// A relative path below it.
    pub path: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunAgentPolicy {
    /// What the back end may do to files.
    pub sandbox: Option<Sandbox>,
    /// When the back end asks the owner of the task before it acts.
    pub approval: Option<ApprovalMode>,
    /// How long the work on a task may take.
    pub timeout_ms: Option<i64>,
    /// Whether the back end reaches a network.
    pub network: Option<NetworkAccess>,
}

/// What works on the conversations of front ends, and what they may keep.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FrontEndSettings {
    /// The tenant that their runs belong to. Default: the first tenant by name.
    pub tenant: Option<String>,
    /// The project of the runs.
    pub project: String,
    /// Where the back end works. Default: an empty folder for each run of the manager.
    pub workspace: Option<RunAgentWorkspace>,
    /// The profile of the runs.
    pub profile: String,
    /// What the runs may do. What is left out has the defaults of `run.create`, but that back ends may ask.
    pub policy: RunAgentPolicy,
    /// What goes with every turn of the mode `chat`.
    pub chat: FrontEndMode,
    /// What goes with every turn of the mode `automation`.
    pub automation: FrontEndMode,
    /// What becomes of an input whose `client_time` is not valid: `strict` refuses it, `lenient` ignores the member.
    pub client_time: ClientTimeSetting,
    /// How many milliseconds a runner waits for the next turn of its conversation.
    pub idle_ms: i64,
    /// The maximum number of conversations per agent.
    pub threads: u32,
    /// Bytes that are stored for the conversations of an agent.
    pub kept_bytes: u64,
    /// How many days a conversation is stored after it was changed last.
    pub retention_days: u32,
}

/// What a back end is given with every turn of a mode.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FrontEndMode {
    /// The names of the tools that the back end may use.
    pub tools: Vec<String>,
    /// Texts that the back end is told before the turn.
    pub context: Vec<String>,
}

/// What becomes of a `client_time` that is not valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientTimeSetting {
    #[default]
    Strict,
    Lenient,
}

/// What the program of a back end speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileBackEnd {
    CodexStdio,
    ProcessJsonl,
}

impl ProfileBackEnd {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ProfileBackEnd::CodexStdio => "codex-stdio",
            ProfileBackEnd::ProcessJsonl => "process-jsonl",
        }
    }
}

impl Settings {
    /// What the back end of a profile speaks.
    pub(crate) fn kind_of(&self, profile: &str) -> ProfileBackEnd {
        match self.profiles.get(profile).and_then(|known| known.kind) {
            Some(kind) => kind,
            None if profile == EXAMPLE => ProfileBackEnd::ProcessJsonl,
            None => ProfileBackEnd::CodexStdio,
        }
    }

    /// Whether a profile cannot be used without a credential. A program of the operator needs one where a variable for it is named.
    pub(crate) fn needs_credential(&self, profile: &str) -> bool {
        let variable = || self.profiles.get(profile).and_then(|known| known.credential_env.as_ref());
        match self.kind_of(profile) {
            ProfileBackEnd::CodexStdio => true,
            ProfileBackEnd::ProcessJsonl => profile != EXAMPLE && variable().is_some(),
        }
    }

    /// The tenant whose runs try whether profiles work. There is none where no tenant is listed.
    pub(crate) fn tenant_of_validations(&self) -> Option<(&String, &TenantSettings)> {
        match &self.validation_tenant {
            Some(name) => self.tenants.get_key_value(name),
            None => self.tenants.first_key_value(),
        }
    }

    /// The tenant that conversations of front ends belong to.
    pub(crate) fn tenant_of_front_ends(&self) -> Option<&String> {
        match &self.agui.tenant {
            Some(name) => Some(name),
            None => self.tenants.keys().next(),
        }
    }

    /// The profiles that are listed although nothing is stored for them.
    pub(crate) fn known_profiles(&self) -> BTreeSet<&str> {
        BUILT_IN.into_iter().chain(self.profiles.keys().map(String::as_str)).collect()
    }
}

/// Where credentials are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretStoreKind {
    /// Files in the data folder, which only the server can read.
    #[default]
    File,
    /// Variables of the environment, which cannot be written here.
    Env,
}

pub(crate) const MIN_TIMEOUT_MS: i64 = 1000;
pub(crate) const MAX_TIMEOUT_MS: i64 = 7_200_000;

impl Default for TenantSettings {
    fn default() -> TenantSettings {
        TenantSettings {
            aids: Vec::new(),
            sandbox: Sandbox::WorkspaceWrite,
            network: NetworkAccess::Enabled,
            timeout_ms: MAX_TIMEOUT_MS,
            kept_bytes: 64 << 30,
        }
    }
}

impl Default for LocalRunnerSettings {
    fn default() -> LocalRunnerSettings {
        LocalRunnerSettings { isolation: None, open_files: 4096, file_bytes: 4 << 30, memory_bytes: 0 }
    }
}

impl Default for RunAgentSettings {
    fn default() -> RunAgentSettings {
        RunAgentSettings {
            tenant: String::new(),
            project: "tasks".to_owned(),
            workspace: None,
            profile: EXAMPLE.to_owned(),
            policy: RunAgentPolicy::default(),
        }
    }
}

impl Default for FrontEndSettings {
    fn default() -> FrontEndSettings {
        FrontEndSettings {
            tenant: None,
            project: "front-ends".to_owned(),
            workspace: None,
            profile: EXAMPLE.to_owned(),
            policy: RunAgentPolicy::default(),
            chat: FrontEndMode::default(),
            automation: FrontEndMode::default(),
            client_time: ClientTimeSetting::Strict,
            idle_ms: 10_000,
            threads: 1000,
            kept_bytes: 256 << 20,
            retention_days: 365,
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        let tenant = |name: &str| (name.to_owned(), TenantSettings::default());
        Settings {
            tenants: BTreeMap::from([tenant("unidesk"), tenant("hwlab")]),
            workspaces: BTreeMap::new(),
            launcher: None,
            manager_url: None,
            manager_root: None,
            local_runners: 0,
            runner: LocalRunnerSettings::default(),
            profiles: BTreeMap::new(),
            agents: BTreeMap::new(),
            agui: FrontEndSettings::default(),
            validation_tenant: None,
            secrets: SecretStoreKind::File,
            active_runs: 1000,
            waiting_commands: 100,
            event_bytes: 1 << 30,
            retention_days: 30,
            sessions: 10_000,
            session_bytes: 1 << 30,
            session_gc_interval_ms: 300_000,
        }
    }
}

impl ServiceSettings for Settings {
    /// Refuses what no run could be created with.
    fn check(&self) -> anyhow::Result<()> {
        for (name, tenant) in &self.tenants {
            anyhow::ensure!(
                is_name(name),
                "run.tenants.{name}: a name has 1 to 64 characters of a-z, 0-9, '-' and '_'"
            );
            anyhow::ensure!(
                (MIN_TIMEOUT_MS..=MAX_TIMEOUT_MS).contains(&tenant.timeout_ms),
                "run.tenants.{name}.timeout_ms: must be {MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS}, and is {}",
                tenant.timeout_ms
            );
        }
        for (name, workspace) in &self.workspaces {
            anyhow::ensure!(
                workspace.path.is_absolute(),
                "run.workspaces.{name}.path: must be an absolute path"
            );
            let unknown = workspace.tenants.iter().find(|tenant| !self.tenants.contains_key(*tenant));
            if let Some(unknown) = unknown {
                anyhow::bail!("run.workspaces.{name}.tenants: {unknown} is not a tenant");
            }
        }
        for (name, value) in [
            ("active_runs", u64::from(self.active_runs)),
            ("waiting_commands", u64::from(self.waiting_commands)),
            ("event_bytes", self.event_bytes),
            ("sessions", u64::from(self.sessions)),
            ("session_gc_interval_ms", self.session_gc_interval_ms),
        ] {
            anyhow::ensure!(value > 0, "run.{name}: must be at least 1");
        }
        for (name, profile) in &self.profiles {
            anyhow::ensure!(
                is_slug(name),
                "run.profiles.{name}: a name has 1 to 63 characters of a-z, 0-9 and '-', and begins with one of a-z"
            );
            anyhow::ensure!(
                name == EXAMPLE
                    || self.kind_of(name) == ProfileBackEnd::CodexStdio
                    || !profile.program.is_empty(),
                "run.profiles.{name}.program: a back end of the kind process-jsonl needs a program"
            );
            let variable = profile.credential_env.as_deref();
            anyhow::ensure!(
                variable.is_none_or(is_variable),
                "run.profiles.{name}.credential_env: must be the name of a variable, of A-Z, 0-9 and _"
            );
        }
        for (aid, agent) in &self.agents {
            self.check_agent(aid, agent)?;
        }
        self.check_front_ends()?;
        if let Some(tenant) = &self.validation_tenant {
            anyhow::ensure!(
                self.tenants.contains_key(tenant),
                "run.validation_tenant: {tenant} is not a tenant"
            );
        }
        let root_alone = self.manager_root.is_some() && self.manager_url.is_none();
        anyhow::ensure!(!root_alone, "run.manager_root: set run.manager_url, too");
        anyhow::ensure!(
            self.runner.open_files >= 64,
            "run.runner.open_files: must be at least 64, and is {}",
            self.runner.open_files
        );
        anyhow::ensure!(
            self.launcher != Some(LauncherKind::Kubernetes),
            "run.launcher: must be local or external"
        );
        Ok(())
    }
}

impl Settings {
    /// Refuses what no task could be worked on with.
    fn check_agent(&self, aid: &str, agent: &RunAgentSettings) -> anyhow::Result<()> {
        let RunAgentSettings { tenant, project, workspace, profile, policy } = agent;
        anyhow::ensure!(
            self.tenants.contains_key(tenant),
            "run.agents.{aid:?}.tenant: {tenant:?} is not a tenant: set run.tenants.NAME"
        );
        anyhow::ensure!(
            (1..=200).contains(&project.chars().count()) && !project.chars().any(char::is_control),
            "run.agents.{aid:?}.project: must have 1 to 200 characters"
        );
        anyhow::ensure!(
            is_slug(profile),
            "run.agents.{aid:?}.profile: a profile has 1 to 63 characters of a-z, 0-9 and '-', and begins with one of a-z"
        );
        if let Some(workspace) = workspace {
            anyhow::ensure!(
                self.workspaces.contains_key(&workspace.root),
                "run.agents.{aid:?}.workspace.root: {:?} is not a folder: set run.workspaces.NAME",
                workspace.root
            );
        }
        if let Some(timeout) = policy.timeout_ms {
            anyhow::ensure!(
                (MIN_TIMEOUT_MS..=MAX_TIMEOUT_MS).contains(&timeout),
                "run.agents.{aid:?}.policy.timeout_ms: must be {MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS}, and is {timeout}"
            );
        }
        Ok(())
    }
}

impl Settings {
    fn check_front_ends(&self) -> anyhow::Result<()> {
        let FrontEndSettings { tenant, project, workspace, profile, policy, idle_ms, .. } = &self.agui;
        let tenant = tenant.as_ref();
        anyhow::ensure!(
            tenant.is_none_or(|tenant| self.tenants.contains_key(tenant)),
            "run.agui.tenant: {tenant:?} is not a tenant: set run.tenants.NAME"
        );
        anyhow::ensure!(
            (1..=200).contains(&project.chars().count()) && !project.chars().any(char::is_control),
            "run.agui.project: must have 1 to 200 characters"
        );
        anyhow::ensure!(
            is_slug(profile),
            "run.agui.profile: a profile has 1 to 63 characters of a-z, 0-9 and '-', and begins with one of a-z"
        );
        let root = workspace.as_ref().map(|workspace| &workspace.root);
        anyhow::ensure!(
            root.is_none_or(|root| self.workspaces.contains_key(root)),
            "run.agui.workspace.root: {root:?} is not a folder: set run.workspaces.NAME"
        );
        let timeout = policy.timeout_ms.unwrap_or(MIN_TIMEOUT_MS);
        anyhow::ensure!(
            (MIN_TIMEOUT_MS..=MAX_TIMEOUT_MS).contains(&timeout),
            "run.agui.policy.timeout_ms: must be {MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS}, and is {timeout}"
        );
        anyhow::ensure!(
            (1000..=3_600_000).contains(idle_ms),
            "run.agui.idle_ms: must be 1000 to 3600000, and is {idle_ms}"
        );
        Ok(())
    }
}

fn is_variable(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.len() <= 64
        && name.bytes().all(allowed)
}

/// Part of keys and of names of folders.
fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(allowed)
}
