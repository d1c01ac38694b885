//! The table `[message]` of `aund.toml`.

use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How long a message waits for a domain that cannot be reached, in seconds. 0: its sender gets an error at once.
    pub peer_retention_seconds: u64,
}

impl Settings {
    pub(super) fn peer_retention(&self) -> Option<Duration> {
        (self.peer_retention_seconds > 0).then(|| Duration::from_secs(self.peer_retention_seconds))
    }
}
