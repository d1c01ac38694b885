//! The table `[ca]` of `aund.toml`.

use kernel::ServiceSettings;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Certificates per agent in 24 hours, 2 to 1000000. Above it, a renewal returns the current certificate, and a new key must
    /// wait.
    pub certificates_per_day: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { certificates_per_day: 32 }
    }
}

impl ServiceSettings for Settings {
    /// Refuses numbers that this service cannot do with. The first certificate is one of them, and a key has to be
    /// replaceable on the day it was made.
    fn check(&self) -> anyhow::Result<()> {
        let most = 1_000_000;
        if !(2..=most).contains(&self.certificates_per_day) {
            let given = self.certificates_per_day;
            anyhow::bail!("ca.certificates_per_day: must be 2 to {most}, and is {given}");
        }
        Ok(())
    }
}
