//! Reading an inbox, and saying how far.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Request;
use crate::requests::message::{ReceivedMessage, V2ReceivedMessage};
use crate::requests::signature::ClientSignature;

/// `message.pull`: read what is in this device's inbox.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pull {
    pub after_seq: Option<i64>,
    pub limit: Option<i64>,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    pub after_volatile_cursor: Option<String>,
    pub client_signature: Option<ClientSignature>,
}

impl Request for Pull {
    const METHOD: &'static str = "message.pull";
    type Result = InboxPage;
}

/// A part of the inbox, oldest message first.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InboxPage {
    pub messages: Vec<ReceivedMessage>,
    pub count: u64,
    pub latest_seq: i64,
    pub server_ack_seq: i64,
    pub retention_floor_seq: i64,
    #[serialize_always]
    pub earliest_available_seq: Option<i64>,
    pub has_more: bool,
    #[serialize_always]
    pub ephemeral_earliest_available_seq: Option<i64>,
    pub ephemeral_dropped_count: u64,
    pub latest_volatile_cursor: Option<String>,
    pub volatile_has_more: Option<bool>,
    pub volatile_earliest_cursor: Option<String>,
    pub volatile_dropped_count: Option<u64>,
}

/// `message.ack`: say how far this consumer has read.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ack {
    pub seq: Option<i64>,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    pub volatile_cursor: Option<String>,
    pub volatile_cursors: Option<Vec<String>>,
    pub volatile_ids: Option<Vec<String>>,
    pub client_signature: Option<ClientSignature>,
}

impl Request for Ack {
    const METHOD: &'static str = "message.ack";
    type Result = AckResult;
}

/// How far this consumer has read.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AckResult {
    pub success: bool,
    pub ack_seq: i64,
    pub event_published: Option<bool>,
    pub event_error: Option<String>,
    pub volatile_ack: Option<VolatileAckCounts>,
}

/// How many volatile messages were acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolatileAckCounts {
    pub accepted: u64,
    pub expired: u64,
}

/// `message.history`: read backwards in this device's inbox.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    pub before_seq: i64,
    pub limit: Option<i64>,
    pub cursor_scope: Option<String>,
    pub sender_aid: Option<String>,
    pub snapshot_head_seq: Option<i64>,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    pub client_signature: Option<ClientSignature>,
}

impl Request for History {
    const METHOD: &'static str = "message.history";
    type Result = HistoryPage;
}

/// A part of the inbox, read backwards.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryPage {
    pub messages: Vec<V2ReceivedMessage>,
    pub count: u64,
    #[serialize_always]
    pub window_start_seq: Option<i64>,
    #[serialize_always]
    pub next_before_seq: Option<i64>,
    pub has_older: bool,
    pub retention_floor_seq: i64,
    #[serialize_always]
    pub earliest_available_seq: Option<i64>,
    pub cursor_scope: Option<String>,
    pub sender_aid: Option<String>,
}

/// `message.peers`: list the senders in this device's inbox.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peers {
    pub filter: Option<String>,
    pub limit: Option<i64>,
    pub page_token: Option<String>,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    pub client_signature: Option<ClientSignature>,
}

impl Request for Peers {
    const METHOD: &'static str = "message.peers";
    type Result = SenderPage;
}

/// The senders in an inbox.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderPage {
    pub cursor_scope: String,
    pub receiver_aid: String,
    pub device_id: String,
    pub slot_id: Option<String>,
    pub bootstrap_floor_seq: i64,
    pub catalog_ready: bool,
    pub catalog_revision: u64,
    pub peers: Vec<ListedSender>,
    pub pending_count_estimate: Option<u64>,
    pub has_more: Option<bool>,
    pub next_page_token: Option<String>,
}

/// A sender and its cursor.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListedSender {
    pub sender_aid: String,
    pub head_seq: i64,
    pub server_ack_seq: i64,
    pub initial_after_seq: i64,
    pub initialization_source: String,
    pub next_pending_seq: Option<i64>,
    pub volatile_has_more: bool,
    pub retention_floor_seq: i64,
    #[serialize_always]
    pub earliest_available_seq: Option<i64>,
}
