//! The table `[agent]` of `aund.toml`.

use kernel::ServiceSettings;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The most agents that one owner may register.
    pub agents_per_owner: i64,
    /// The most relations that one user may have, with those that were revoked in the last 30 days.
    pub relations_per_user: i64,
    /// Where events of agents are sent.
    pub webhook: WebhookSettings,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookSettings {
    /// Whether webhooks may be plain `http` and lead into private networks, or to this machine. For tests, and for a server whose
    /// owners of agents are trusted.
    pub allow_private: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { agents_per_owner: 1000, relations_per_user: 1000, webhook: WebhookSettings::default() }
    }
}

impl ServiceSettings for Settings {}
