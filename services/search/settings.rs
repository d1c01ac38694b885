//! The table `[search]` of `aund.toml`.

use kernel::ServiceSettings;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether this server has a directory at all. Without it every method of `search` answers -32160.
    pub enabled: bool,
    /// Whether the directories of other domains may copy ours.
    pub public: bool,
    /// The domains whose directories are copied here.
    pub peers: Vec<String>,
    /// The most agents that are copied from one peer.
    pub peer_agents: i64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { enabled: true, public: true, peers: Vec::new(), peer_agents: 200_000 }
    }
}

impl ServiceSettings for Settings {}
