//! The table `[run]` of `aund.toml`.

use kernel::ServiceSettings;
use proto_schemas::requests::run::{LauncherKind, NetworkAccess, Sandbox};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The tenants that may have runs, by name.
    pub tenants: BTreeMap<String, TenantSettings>,
    /// The folders that runs may work in, by name.
    pub workspaces: BTreeMap<String, WorkspaceSettings>,
    /// How runners are started where a request does not say it. `external`: the caller starts them.
    pub launcher: LauncherKind,
    /// The base URL of this server for runners. Default: the gateway's own URL.
    pub manager_url: Option<String>,
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

impl Default for Settings {
    fn default() -> Settings {
        let tenant = |name: &str| (name.to_owned(), TenantSettings::default());
        Settings {
            tenants: BTreeMap::from([tenant("unidesk"), tenant("hwlab")]),
            workspaces: BTreeMap::new(),
            launcher: LauncherKind::External,
            manager_url: None,
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
        anyhow::ensure!(
            self.launcher == LauncherKind::External,
            "run.launcher: this build has only external"
        );
        Ok(())
    }
}

/// Part of keys and of names of folders.
fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(allowed)
}
