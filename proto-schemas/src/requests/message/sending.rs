//! Sending messages, recalling them, and who could read them now.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::Request;
use crate::requests::signature::ClientSignature;

/// `message.send`: send a message to an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Send {
    pub to: String,
    /// An object, or a string.
    pub payload: Value,
    pub message_id: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub encrypted: Option<bool>,
    pub delivery_mode: Option<Value>,
    pub ttl: Option<f64>,
    pub device_id: Option<String>,
    pub to_device_id: Option<String>,
    pub msg_subtype: Option<String>,
    pub content_type: Option<String>,
    pub need_render: Option<bool>,
    pub protected_headers: Option<Map<String, Value>>,
    pub headers: Option<Map<String, Value>>,
    pub context: Option<Map<String, Value>>,
    pub client_signature: Option<ClientSignature>,
}

impl Request for Send {
    const METHOD: &'static str = "message.send";
    type Result = SentMessage;
}

/// What became of a message.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SentMessage {
    pub message_id: String,
    pub seq: Option<i64>,
    pub timestamp: i64,
    pub status: String,
    pub delivery_mode: Option<String>,
    pub storage: Option<String>,
    pub volatile_cursor: Option<String>,
    pub created_at: Option<i64>,
    pub expires_at: Option<i64>,
    pub cross_domain: Option<bool>,
    pub target_issuer: Option<String>,
    pub volatile_cursors: Option<Vec<String>>,
}

/// `message.recall`: recall messages.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recall {
    pub message_ids: Vec<String>,
    pub client_signature: Option<ClientSignature>,
}

impl Request for Recall {
    const METHOD: &'static str = "message.recall";
    type Result = RecallResult;
}

/// How many messages were recalled, and which were not.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecallResult {
    pub success: bool,
    pub accepted: u64,
    pub recalled: u64,
    #[serialize_always]
    pub errors: Option<Vec<RecallFailure>>,
}

/// A message that was not recalled, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecallFailure {
    pub message_id: String,
    pub error: String,
}

/// `message.query_online`: ask who is connected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueryOnline {
    pub aids: Vec<String>,
}

impl Request for QueryOnline {
    const METHOD: &'static str = "message.query_online";
    type Result = OnlineAgents;
}

/// Who is connected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OnlineAgents {
    pub online: BTreeMap<String, bool>,
}

/// `message.outbox`: what waits for other domains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outbox {}

impl Request for Outbox {
    const METHOD: &'static str = "message.outbox";
    type Result = OutboxReport;
}

/// What waits for each other domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutboxReport {
    pub issuers: Vec<IssuerOutbox>,
}

/// What waits for one other domain.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IssuerOutbox {
    pub issuer: String,
    pub waiting: u64,
    pub bytes: u64,
    pub oldest_ms: Option<u64>,
    pub attempts: u64,
    #[serialize_always]
    pub last_error: Option<String>,
    pub retry_in_ms: Option<u64>,
    pub delivered: u64,
    pub refused: u64,
    pub expired: u64,
}
