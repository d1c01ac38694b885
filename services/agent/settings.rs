//! The table `[agent]` of `aund.toml`.

use kernel::ServiceSettings;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The maximum number of agents per owner.
    pub agents_per_owner: i64,
    /// The maximum number of relations per user, including those revoked in the last 30 days.
    pub relations_per_user: i64,
    /// Bytes of documents, manifests and relations that are stored per agent.
    pub kept_bytes: u64,
    /// Where events of agents are sent.
    pub webhook: WebhookSettings,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookSettings {
    /// Whether webhooks may use plain `http` and private addresses, including this machine. For tests, and for servers that trust
    /// all owners of agents.
    pub allow_private: bool,
    /// The maximum number of concurrent webhook requests. A request that hangs occupies its place for ten seconds.
    pub requests: usize,
    /// The maximum number of concurrent webhook requests per owner.
    pub requests_per_owner: usize,
    /// The maximum number of concurrent webhook requests per address. An IPv6 /64 counts as one address.
    pub requests_per_address: usize,
    /// How many of `requests` are reserved for webhooks that answered their last request.
    pub requests_kept: usize,
    /// The maximum number of waiting deliveries per owner. Above it, the oldest is given up.
    pub waiting_per_owner: i64,
}

impl Default for WebhookSettings {
    fn default() -> WebhookSettings {
        WebhookSettings {
            allow_private: false,
            requests: 64,
            requests_per_owner: 4,
            requests_per_address: 4,
            requests_kept: 32,
            waiting_per_owner: 4000,
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            agents_per_owner: 1000,
            relations_per_user: 1000,
            kept_bytes: 8 << 20,
            webhook: WebhookSettings::default(),
        }
    }
}

impl ServiceSettings for Settings {
    /// Refuses numbers with which no webhook would ever be called.
    fn check(&self) -> anyhow::Result<()> {
        let webhook = &self.webhook;
        for (name, value, most) in [
            ("requests", webhook.requests, 4096),
            ("requests_per_owner", webhook.requests_per_owner, webhook.requests),
            ("requests_per_address", webhook.requests_per_address, webhook.requests),
        ] {
            anyhow::ensure!(
                (1..=most).contains(&value),
                "agent.webhook.{name}: must be 1 to {most}, and is {value}"
            );
        }
        anyhow::ensure!(
            webhook.waiting_per_owner >= 1,
            "agent.webhook.waiting_per_owner: must be at least 1"
        );
        let (kept, most) = (webhook.requests_kept, webhook.requests - 1);
        anyhow::ensure!(kept <= most, "agent.webhook.requests_kept: must be 0 to {most}, and is {kept}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_which_no_webhook_would_be_called_are_refused() {
        let checked = |change: fn(&mut WebhookSettings)| {
            let mut settings = Settings::default();
            change(&mut settings.webhook);
            settings.check().map_err(|error| error.to_string())
        };
        assert!(checked(|_| ()).is_ok());
        assert!(checked(|webhook| webhook.requests_kept = 63).is_ok());
        for (change, expected) in [
            (
                (|webhook| webhook.requests = 0) as fn(&mut WebhookSettings),
                "agent.webhook.requests: must be 1 to 4096",
            ),
            (|webhook| webhook.requests_per_owner = 65, "agent.webhook.requests_per_owner: must be 1 to 64"),
            (
                |webhook| webhook.requests_per_address = 0,
                "agent.webhook.requests_per_address: must be 1 to 64",
            ),
            (|webhook| webhook.waiting_per_owner = 0, "agent.webhook.waiting_per_owner: must be at least 1"),
            (|webhook| webhook.requests_kept = 64, "agent.webhook.requests_kept: must be 0 to 63"),
        ] {
            let refused = checked(change).unwrap_err();
            assert!(refused.starts_with(expected), "{refused}");
        }
    }
}
