//! Messages as their receiver sees them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

/// A message as `message.pull` shows it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReceivedMessage {
    pub message_id: String,
    pub seq: Option<i64>,
    pub from: String,
    pub to: String,
    pub timestamp: i64,
    pub payload: Value,
    pub delivery_mode: String,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub encrypted: Option<bool>,
    pub device_id: Option<String>,
    pub sender_device_id: Option<String>,
    pub direction: Option<String>,
    pub msg_subtype: Option<String>,
    pub content_type: Option<String>,
    pub need_render: Option<bool>,
    pub protected_headers: Option<Map<String, Value>>,
    pub headers: Option<Map<String, Value>>,
    pub context: Option<Map<String, Value>>,
    pub proximity: Option<SenderProximity>,
    pub same_device: Option<bool>,
    pub same_egress_ip: Option<bool>,
    pub same_network: Option<bool>,
    pub storage: Option<String>,
    pub volatile_cursor: Option<String>,
    pub created_at: Option<i64>,
    pub expires_at: Option<i64>,
}

/// A message as `message.v2.pull` shows it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct V2ReceivedMessage {
    pub version: String,
    pub seq: Option<i64>,
    pub message_id: String,
    pub from_aid: String,
    pub t_server: i64,
    pub device_id: String,
    pub envelope_json: Option<String>,
    pub spk_id: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub legacy_v1: Option<PlainContent>,
    pub encrypted: Option<bool>,
    pub sender_device_id: Option<String>,
    pub delivery_mode: Option<String>,
    pub direction: Option<String>,
    pub msg_subtype: Option<String>,
    pub content_type: Option<String>,
    pub need_render: Option<bool>,
    pub protected_headers: Option<Map<String, Value>>,
    pub headers: Option<Map<String, Value>>,
    pub context: Option<Map<String, Value>>,
    pub proximity: Option<SenderProximity>,
    pub same_device: Option<bool>,
    pub same_egress_ip: Option<bool>,
    pub same_network: Option<bool>,
    pub storage: Option<String>,
    pub volatile_cursor: Option<String>,
    pub created_at: Option<i64>,
    pub expires_at: Option<i64>,
}

/// What a plain message holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlainContent {
    pub to: String,
    pub payload: Value,
}

/// How near the sender is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderProximity {
    pub same_device: bool,
    pub same_egress_ip: bool,
    pub same_network: bool,
    pub basis: String,
    pub asserted_by: String,
}
