//! The table `[auth]` of `aund.toml`, which has no settings yet.

use kernel::ServiceSettings;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {}

impl ServiceSettings for Settings {}
