//! The table `[accounts]` of `aund.toml`.

use anyhow::bail;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccountSettings {
    /// How many bytes all services together keep for one agent. What each of them keeps is a setting of its own table.
    pub total_bytes: u64,
    /// How many rows each service keeps for one agent.
    pub rows: u64,
    /// How many agents' shares all agents of one other domain have together.
    pub domain_shares: u32,
    /// How many agents' shares all new agents have together that were registered from one network (an IPv4 /24 or an IPv6 /56).
    pub network_shares: u32,
    /// For how many days an agent is new, and for how many what new agents stored counts for their network.
    pub new_agent_days: u32,
}

impl Default for AccountSettings {
    fn default() -> AccountSettings {
        AccountSettings {
            total_bytes: 6 << 30,
            rows: 1_000_000,
            domain_shares: 64,
            network_shares: 16,
            new_agent_days: 7,
        }
    }
}

impl AccountSettings {
    pub fn check(&self) -> anyhow::Result<()> {
        if self.new_agent_days > 366 {
            bail!("accounts.new_agent_days must be at most 366, and is {}", self.new_agent_days);
        }
        for (name, value) in [("total_bytes", self.total_bytes), ("rows", self.rows)] {
            if i64::try_from(value).is_err() {
                bail!("accounts.{name} must be at most {}, and is {value}", i64::MAX);
            }
        }
        Ok(())
    }
}
