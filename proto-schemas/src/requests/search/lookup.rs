//! Finding agents.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use crate::{Aid, Request};

/// `search.query`: find agents by words and tags.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Query {
    pub q: Option<String>,
    pub tags: Option<Vec<String>>,
    pub limit: Option<i64>,
    pub cursor: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub issuer: Option<String>,
    pub signed: Option<bool>,
    pub explain: Option<bool>,
}

impl Request for Query {
    const METHOD: &'static str = "search.query";
    type Result = QueryPage;
}

/// A page of agents that were found.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct QueryPage {
    pub items: Vec<QueryItem>,
    #[serialize_always]
    pub next_cursor: Option<String>,
    pub stale: Option<bool>,
}

/// An agent that was found.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct QueryItem {
    pub aid: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
    pub agent_md_url: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub score: f64,
    pub signed: bool,
    pub updated_at: String,
    pub source_ap: String,
    pub explanation: Option<Box<RawValue>>,
}

/// `search.get_agent`: read the agent.md of an agent in the directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GetAgent {
    pub aid: Aid,
}

impl Request for GetAgent {
    const METHOD: &'static str = "search.get_agent";
    type Result = FoundAgent;
}

/// The agent.md of an agent, as the directory has it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FoundAgent {
    pub aid: String,
    pub agent_md: String,
    pub content_type: String,
    pub agent_md_url: String,
    pub updated_at: String,
    pub etag: String,
    pub sha256: String,
    pub source_ap: String,
    pub signed: bool,
    pub manifest_version: Option<i64>,
    pub manifest_hash: Option<String>,
}

/// `search.suggest`: complete what somebody begins to type.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Suggest {
    pub prefix: Option<String>,
    pub limit: Option<i64>,
}

impl Request for Suggest {
    const METHOD: &'static str = "search.suggest";
    type Result = Suggestions;
}

/// How what was typed may go on, the best first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Suggestions {
    pub suggestions: Vec<Suggestion>,
}

/// Words to search for, a tag, or an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Suggestion {
    #[serde(rename = "type")]
    pub kind: String,
    pub value: String,
}
