//! What an agent publishes about itself.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{Aid, Request};

/// `agent.get_agent_md`: read an agent's agent.md.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GetAgentMd {
    pub aid: Aid,
    /// Whether the reader knows of several signature blocks.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PutAgentMd {
    pub aid: Aid,
    pub content: String,
    pub if_match: Option<String>,
    pub if_none_match: Option<String>,
}

impl Request for PutAgentMd {
    const METHOD: &'static str = "agent.put_agent_md";
    type Result = StoredAgentMdVersion;
}

/// What was stored.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredAgentMdVersion {
    pub aid: Aid,
    pub etag: String,
    pub last_modified: i64,
    pub warnings: Option<Vec<AgentMdNote>>,
}

/// Something about a document that is accepted and could be better.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentMdNote {
    /// A JSON Pointer into the front matter.
    pub path: String,
    /// A sentence about it.
    pub message: String,
}

/// `agent.delete_agent_md`: remove an agent's agent.md.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteAgentMd {
    pub aid: Aid,
    pub if_match: Option<String>,
}

impl Request for DeleteAgentMd {
    const METHOD: &'static str = "agent.delete_agent_md";
    type Result = RemovedAgentMd;
}

/// What was removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemovedAgentMd {
    pub aid: Aid,
    pub deleted_at: i64,
}

/// `agent.changes`: read which agent.md documents changed.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    pub after: i64,
    pub limit: Option<i64>,
}

impl Request for Changes {
    const METHOD: &'static str = "agent.changes";
    type Result = ChangedAgents;
}

/// The documents that changed, in the order of their positions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangedAgents {
    pub head: i64,
    pub has_more: bool,
    pub changes: Vec<ChangedAgent>,
}

/// The last change of an agent's document.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangedAgent {
    pub position: i64,
    pub aid: String,
    pub op: String,
    pub updated_at: i64,
    pub content: Option<String>,
    pub signed: Option<bool>,
    pub manifest_version: Option<i64>,
    pub manifest_hash: Option<String>,
    pub manifest_facts: Option<String>,
}
