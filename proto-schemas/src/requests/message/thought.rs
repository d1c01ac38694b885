//! Calls of `message.thought`: thoughts that an agent lets another one read.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use crate::requests::signature::{ClientSignature, unread};
use crate::{Aid, Request};

/// `message.thought.get`: read the thoughts of one context.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Get {
    pub sender_aid: Aid,
    pub context: ThoughtContext,
    pub peer_aid: Option<Aid>,
    /// Another name for the same.
    pub to: Option<Aid>,
}

impl Request for Get {
    const METHOD: &'static str = "message.thought.get";
    type Result = ThoughtsOfContext;
}

/// What a thought is about, such as a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThoughtContext {
    #[serde(rename = "type")]
    pub kind: String,
    pub id: String,
}

/// The thoughts of one context.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThoughtsOfContext {
    pub found: bool,
    pub sender_aid: Aid,
    pub peer_aid: Aid,
    pub context: ThoughtContext,
    /// Shared, because a service that keeps them answers without a copy.
    pub thoughts: Vec<Arc<Thought>>,
    pub updated_at: Option<i64>,
}

/// One thought, as it is read and stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Thought {
    pub thought_id: String,
    /// The same again, for clients that look for it here.
    pub message_id: String,
    pub context: ThoughtContext,
    pub from: Aid,
    pub to: Aid,
    /// As it was written: readers verify it as a whole.
    pub payload: Box<RawValue>,
    pub created_at: i64,
}

/// `message.thought.put`: add a thought for another agent to read.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Put {
    pub to: Aid,
    pub context: ThoughtContext,
    pub payload: Box<RawValue>,
    pub thought_id: Option<String>,
    pub encrypted: Option<Box<RawValue>>,
    #[serde(rename = "type")]
    pub kind: Option<Box<RawValue>>,
    pub timestamp: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "unread")]
    pub client_signature: Option<Box<ClientSignature>>,
}

impl Request for Put {
    const METHOD: &'static str = "message.thought.put";
    type Result = StoredThought;
}

/// The thought that is stored.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredThought {
    pub sender_aid: Aid,
    pub peer_aid: Aid,
    pub to: Aid,
    pub context: ThoughtContext,
    pub thought_id: String,
    pub stored_count: usize,
    pub updated_at: i64,
    pub cross_domain: Option<bool>,
    pub target_issuer: Option<String>,
}
