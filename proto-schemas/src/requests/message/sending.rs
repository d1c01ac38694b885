//! Sending messages, recalling them, and who could read them now.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use crate::requests::signature::{ClientSignature, unread};
use crate::{Aid, Mode, Request};

/// `message.send`: send a message to an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Send {
    pub to: Aid,
    /// An object, or a string.
    pub payload: Box<RawValue>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub encrypted: Option<bool>,
    pub message_id: Option<String>,
    /// A [`Mode`], or an object whose `mode` is one.
    pub delivery_mode: Option<Box<RawValue>>,
    pub need_render: Option<bool>,
    pub ttl: Option<f64>,
    pub device_id: Option<String>,
    pub to_device_id: Option<String>,
    pub protected_headers: Option<Box<RawValue>>,
    pub headers: Option<Box<RawValue>>,
    pub context: Option<Box<RawValue>>,
    pub msg_subtype: Option<String>,
    pub content_type: Option<String>,
    #[serde(default, deserialize_with = "unread")]
    pub client_signature: Option<Box<ClientSignature>>,
}

impl Request for Send {
    const METHOD: &'static str = "message.send";
    type Result = SentMessage;
}

impl Send {
    /// A message that says nothing but its payload.
    pub fn new(to: Aid, payload: Box<RawValue>) -> Send {
        Send {
            to,
            payload,
            kind: None,
            encrypted: None,
            message_id: None,
            delivery_mode: None,
            need_render: None,
            ttl: None,
            device_id: None,
            to_device_id: None,
            protected_headers: None,
            headers: None,
            context: None,
            msg_subtype: None,
            content_type: None,
            client_signature: None,
        }
    }
}

/// What became of a message.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentMessage {
    pub message_id: String,
    pub seq: Option<i64>,
    pub timestamp: i64,
    pub status: SendStatus,
    pub delivery_mode: Option<Mode>,
    pub storage: Option<Storage>,
    pub volatile_cursor: Option<String>,
    pub volatile_cursors: Option<Vec<String>>,
    pub created_at: Option<i64>,
    pub expires_at: Option<i64>,
    pub cross_domain: Option<bool>,
    pub target_issuer: Option<String>,
}

impl SentMessage {
    /// A message without a seq.
    pub fn new(message_id: String, timestamp: i64, status: SendStatus, mode: Mode) -> SentMessage {
        SentMessage {
            message_id,
            seq: None,
            timestamp,
            status,
            delivery_mode: Some(mode),
            storage: None,
            volatile_cursor: None,
            volatile_cursors: None,
            created_at: None,
            expires_at: None,
            cross_domain: None,
            target_issuer: None,
        }
    }
}

/// How far a message got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SendStatus {
    Sent,
    Delivered,
    Duplicate,
    /// Stored in memory, with a ttl.
    Accepted,
    /// Stored by the sender's domain until the recipient's domain can be reached.
    Queued,
}

/// As on the wire.
impl fmt::Display for SendStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Where a message is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    Persistent,
    Volatile,
}

/// `message.recall`: recall messages.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recall {
    pub message_ids: Vec<String>,
    #[serde(default, deserialize_with = "unread")]
    pub client_signature: Option<Box<ClientSignature>>,
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
    pub accepted: usize,
    pub recalled: usize,
    #[serialize_always]
    pub errors: Option<Vec<RecallFailure>>,
}

/// A message that was not recalled, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecallFailure {
    pub message_id: String,
    pub error: RecallRefusal,
}

/// Why a message was not recalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecallRefusal {
    NotSender,
    AlreadyRecalled,
    Expired,
    #[serde(other)]
    NotFound,
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
