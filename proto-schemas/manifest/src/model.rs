//! What a manifest says, as types.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use std::fmt;

/// How long a tool may take if the manifest does not say.
const DEFAULT_TIMEOUT_MS: u64 = 10_000;

/// Something the agent may ask the device of a person to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Unique in the manifest.
    pub name: String,
    /// The key of its description in the texts of a client.
    pub description_i18n_key: String,
    /// A JSON Schema (2020-12) of its arguments: an object, or true or false.
    pub input_schema: Value,
    /// The scope that a person has to have granted.
    pub permission_scope: String,
    /// Whether the agent is useless without it, so that its scope has to be granted.
    #[serde(default)]
    pub required: bool,
    /// How long it may take.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
}

/// What a person grants: the right to use the tools under it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Such as `filesystem:read`; unique in the manifest.
    pub id: String,
    /// The key of its name in the texts of a client.
    pub label_i18n_key: String,
    /// The key of its description in the texts of a client.
    pub description_i18n_key: Option<String>,
    /// How careful a client is.
    pub sensitivity: Sensitivity,
    /// Its name for clients that have no text of their own for the key.
    pub label_fallback: Option<String>,
    /// Its description for such clients.
    pub description_fallback: Option<String>,
}

/// How careful a client is with a scope: it asks never, once a day, or each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sensitivity {
    /// Executed without asking.
    Low,
    /// Asked about at first, and then again after 24 hours without a call.
    Medium,
    /// Asked about each time.
    High,
}

/// What the agent supports besides tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CapabilityFlags {
    /// Answers in parts.
    pub supports_streaming: bool,
    /// Artifacts, tool calls among them.
    pub supports_artifacts: bool,
    /// Voice.
    pub supports_voice: bool,
    /// Conversations in groups. Tool calls are refused there all the same.
    pub supports_group_chat: bool,
}

/// Something in a manifest that is accepted, and that its owner should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ManifestWarning {
    /// A JSON Pointer.
    pub path: String,
    /// A sentence about it.
    pub message: String,
}

impl Sensitivity {
    /// As it is written in a manifest.
    pub fn parse(text: &str) -> Option<Sensitivity> {
        [Sensitivity::Low, Sensitivity::Medium, Sensitivity::High]
            .into_iter()
            .find(|sensitivity| sensitivity.as_str() == text)
    }

    /// As it is written in a manifest.
    pub fn as_str(self) -> &'static str {
        match self {
            Sensitivity::Low => "low",
            Sensitivity::Medium => "medium",
            Sensitivity::High => "high",
        }
    }
}

impl fmt::Display for Sensitivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn default_timeout_ms() -> u64 {
    DEFAULT_TIMEOUT_MS
}
