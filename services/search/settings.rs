//! The table `[search]` of `aund.toml`.

use kernel::ServiceSettings;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether this server has a directory. Without it, every method of `search` answers -32160.
    pub enabled: bool,
    /// Whether other domains may replicate this directory.
    pub public: bool,
    /// The domains whose directories are replicated.
    pub peers: Vec<String>,
    /// The maximum number of agents that are replicated per peer.
    pub peer_agents: i64,
    /// How old a snapshot may be that a reader begins with, in seconds, if the directory has changed since.
    pub snapshot_seconds: i64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            enabled: true,
            public: true,
            peers: Vec::new(),
            peer_agents: 200_000,
            snapshot_seconds: 60,
        }
    }
}

impl ServiceSettings for Settings {
    fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            (1..=86_400).contains(&self.snapshot_seconds),
            "search.snapshot_seconds must be between 1 and 86400"
        );
        Ok(())
    }
}
