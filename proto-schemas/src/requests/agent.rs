//! Calls of `agent`: what an agent publishes about itself.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Request;

/// `agent.get_agent_md`: read an agent's agent.md.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GetAgentMd {
    pub aid: String,
    pub multi: Option<bool>,
}

impl Request for GetAgentMd {
    const METHOD: &'static str = "agent.get_agent_md";
    type Result = FoundAgentMd;
}

/// An agent's agent.md, if it has published one.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FoundAgentMd {
    pub found: bool,
    pub content: Option<String>,
    pub etag: Option<String>,
    pub last_modified: Option<i64>,
}

/// `agent.put_agent_md`: publish an agent's agent.md.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PutAgentMd {
    pub aid: String,
    pub content: String,
    pub if_match: Option<String>,
    pub if_none_match: Option<String>,
}

impl Request for PutAgentMd {
    const METHOD: &'static str = "agent.put_agent_md";
    type Result = StoredAgentMdVersion;
}

/// What was stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredAgentMdVersion {
    pub aid: String,
    pub etag: String,
    pub last_modified: i64,
}
