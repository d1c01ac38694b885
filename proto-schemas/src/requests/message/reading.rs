//! Reading an inbox, and saying how far.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use crate::requests::signature::{ClientSignature, unread};
use crate::{Aid, DeviceId, Request, SlotId};

/// A position in an inbox; 0 is before the first message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "i64")]
pub struct Seq(i64);

impl Seq {
    pub fn get(self) -> i64 {
        self.0
    }
}

impl TryFrom<i64> for Seq {
    type Error = String;
    fn try_from(seq: i64) -> Result<Seq, String> {
        if seq < 0 { Err(format!("must not be negative, and is {seq}")) } else { Ok(Seq(seq)) }
    }
}

/// What a cursor counts, where it is not all that is in an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CursorScope {
    /// The messages of one sender.
    Peer,
}

/// `message.pull`: read what is in this device's inbox.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pull {
    pub after_seq: Option<Seq>,
    pub limit: Option<i64>,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    pub after_volatile_cursor: Option<String>,
    #[serde(default, deserialize_with = "unread")]
    pub client_signature: Option<Box<ClientSignature>>,
}

impl Request for Pull {
    const METHOD: &'static str = "message.pull";
    type Result = InboxPage;
}

/// A part of the inbox, oldest message first.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InboxPage {
    /// Each is a [`ReceivedMessage`](super::ReceivedMessage).
    pub messages: Vec<Box<RawValue>>,
    pub count: usize,
    pub has_more: bool,
    pub latest_seq: i64,
    #[serialize_always]
    pub ephemeral_earliest_available_seq: Option<i64>,
    pub ephemeral_dropped_count: u64,
    pub server_ack_seq: i64,
    pub retention_floor_seq: i64,
    #[serialize_always]
    pub earliest_available_seq: Option<i64>,
    pub latest_volatile_cursor: Option<String>,
    pub volatile_has_more: Option<bool>,
    pub volatile_earliest_cursor: Option<String>,
    pub volatile_dropped_count: Option<u64>,
}

/// `message.ack`: say how far this consumer has read.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ack {
    pub seq: Option<Seq>,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    pub volatile_cursor: Option<String>,
    pub volatile_cursors: Option<Vec<String>>,
    pub volatile_ids: Option<Vec<String>>,
    #[serde(default, deserialize_with = "unread")]
    pub client_signature: Option<Box<ClientSignature>>,
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
    pub accepted: usize,
    pub expired: usize,
}

/// `message.history`: read backwards in this device's inbox.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    pub before_seq: Option<Seq>,
    pub limit: Option<i64>,
    pub cursor_scope: Option<String>,
    pub sender_aid: Option<Aid>,
    pub snapshot_head_seq: Option<Seq>,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    #[serde(default, deserialize_with = "unread")]
    pub client_signature: Option<Box<ClientSignature>>,
}

impl Request for History {
    const METHOD: &'static str = "message.history";
    type Result = HistoryPage;
}

/// A part of the inbox, read backwards.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HistoryPage {
    /// Each is a [`V2ReceivedMessage`](super::V2ReceivedMessage).
    pub messages: Vec<Box<RawValue>>,
    pub count: usize,
    #[serialize_always]
    pub window_start_seq: Option<i64>,
    #[serialize_always]
    pub next_before_seq: Option<i64>,
    pub has_older: bool,
    pub retention_floor_seq: i64,
    #[serialize_always]
    pub earliest_available_seq: Option<i64>,
    pub cursor_scope: Option<CursorScope>,
    pub sender_aid: Option<Aid>,
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
    #[serde(default, deserialize_with = "unread")]
    pub client_signature: Option<Box<ClientSignature>>,
}

impl Request for Peers {
    const METHOD: &'static str = "message.peers";
    type Result = SenderPage;
}

/// The senders in an inbox.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SenderPage {
    pub cursor_scope: CursorScope,
    pub receiver_aid: Aid,
    pub device_id: DeviceId,
    pub slot_id: Option<SlotId>,
    pub bootstrap_floor_seq: i64,
    pub catalog_ready: bool,
    pub catalog_revision: i64,
    pub peers: Vec<ListedSender>,
    pub pending_count_estimate: Option<i64>,
    pub has_more: Option<bool>,
    pub next_page_token: Option<String>,
}

/// A sender and its cursor.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedSender {
    pub sender_aid: String,
    pub head_seq: i64,
    pub server_ack_seq: i64,
    pub initial_after_seq: i64,
    pub initialization_source: CursorSource,
    pub next_pending_seq: Option<i64>,
    pub volatile_has_more: bool,
    pub retention_floor_seq: i64,
    #[serialize_always]
    pub earliest_available_seq: Option<i64>,
}

/// Where the first cursor of a sender comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CursorSource {
    /// It is the sender's own.
    Peer,
    /// It is how far the whole inbox was read when it was first read sender by sender.
    Bootstrap,
}
