//! Calls of `message.thought`: thoughts that an agent lets another one read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::Request;
use crate::requests::signature::ClientSignature;

/// `message.thought.get`: read the thoughts of one context.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Get {
    pub sender_aid: String,
    pub context: ThoughtContext,
    pub peer_aid: Option<String>,
    pub to: Option<String>,
}

impl Request for Get {
    const METHOD: &'static str = "message.thought.get";
    type Result = ThoughtsOfContext;
}

/// What a thought is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThoughtContext {
    #[serde(rename = "type")]
    pub kind: String,
    pub id: String,
}

/// The thoughts of one context.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThoughtsOfContext {
    pub found: bool,
    pub sender_aid: String,
    pub peer_aid: String,
    pub context: ThoughtContext,
    pub thoughts: Vec<ReadThought>,
    pub updated_at: Option<i64>,
}

/// One thought.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadThought {
    pub thought_id: String,
    pub message_id: String,
    pub context: ThoughtContext,
    pub from: String,
    pub to: String,
    pub payload: Map<String, Value>,
    pub created_at: i64,
}

/// `message.thought.put`: add a thought for another agent to read.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Put {
    pub to: String,
    pub context: ThoughtContext,
    pub payload: Map<String, Value>,
    pub thought_id: Option<String>,
    pub encrypted: Option<bool>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub timestamp: Option<i64>,
    pub client_signature: Option<ClientSignature>,
}

impl Request for Put {
    const METHOD: &'static str = "message.thought.put";
    type Result = StoredThought;
}

/// The thought that is stored.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredThought {
    pub sender_aid: String,
    pub peer_aid: String,
    pub to: String,
    pub context: ThoughtContext,
    pub thought_id: String,
    pub stored_count: u64,
    pub updated_at: i64,
    pub cross_domain: Option<bool>,
    pub target_issuer: Option<String>,
}
