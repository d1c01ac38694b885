//! Calls of `message.v2`: encrypted messages, and the keys to encrypt to.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use crate::requests::message::{CursorScope, Seq, VolatileAckCounts};
use crate::requests::signature::{ClientSignature, unread};
use crate::{Aid, DeviceId, Request, SlotId};

/// `message.v2.ack`: say how far this consumer has read, as a whole or of one sender.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ack {
    pub up_to_seq: Option<Seq>,
    pub cursor_scope: Option<String>,
    pub sender_aid: Option<Aid>,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    pub volatile_cursor: Option<String>,
    pub volatile_cursors: Option<Vec<String>>,
    pub volatile_ids: Option<Vec<String>>,
    #[serde(default, deserialize_with = "unread")]
    pub client_signature: Option<Box<ClientSignature>>,
}

impl Request for Ack {
    const METHOD: &'static str = "message.v2.ack";
    type Result = V2AckResult;
}

/// How far this consumer has read.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct V2AckResult {
    pub success: bool,
    pub acked: Option<bool>,
    pub ack_seq: i64,
    pub effective_ack_seq: i64,
    pub cursor_scope: Option<CursorScope>,
    pub sender_aid: Option<Aid>,
    pub peer_ack_seq: Option<i64>,
    pub event_published: Option<bool>,
    pub event_error: Option<String>,
    pub volatile_ack: Option<VolatileAckCounts>,
}

/// `message.v2.bootstrap`: get the devices to encrypt for, and how.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bootstrap {
    pub peer_aid: Aid,
    pub e2ee_wrap_capabilities: Option<E2eeWrapCapabilities>,
    #[serde(default, deserialize_with = "unread")]
    pub client_signature: Option<Box<ClientSignature>>,
}

impl Request for Bootstrap {
    const METHOD: &'static str = "message.v2.bootstrap";
    type Result = EncryptionTargets;
}

/// Which ways of wrapping keys the client knows. What this server does not read of it, another domain may.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct E2eeWrapCapabilities {
    pub protocols: Option<Vec<String>>,
    pub scopes: Option<Vec<String>>,
    pub version: Option<Box<RawValue>>,
    pub per_aid_wrap: Option<Box<RawValue>>,
    pub per_device_wrap: Option<Box<RawValue>>,
}

/// The devices to encrypt for, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EncryptionTargets {
    pub peer_devices: Vec<EncryptionDevice>,
    /// All devices of the caller, the calling one too.
    pub self_devices: Vec<EncryptionDevice>,
    /// Always empty: no server has auditors.
    pub audit_recipients: Vec<Box<RawValue>>,
    pub e2ee_wrap_policy: E2eeWrapPolicy,
}

/// A device and its keys.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EncryptionDevice {
    pub aid: Aid,
    pub device_id: DeviceId,
    /// The key of the agent's certificate.
    pub ik_pk: String,
    pub key_source: KeySource,
    pub spk_id: Option<String>,
    pub spk_pk: Option<String>,
    pub spk_signature: Option<String>,
    pub spk_timestamp: Option<i64>,
}

/// Which key of a recipient a message is encrypted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeySource {
    AidMaster,
    PeerDevicePrekey,
}

/// How keys are wrapped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct E2eeWrapPolicy {
    pub version: String,
    pub protocol: String,
    pub scope: String,
    pub per_aid_wrap: bool,
    pub per_device_wrap: bool,
    pub source: String,
}

/// `message.v2.pull`: read what is in this device's inbox, encrypted messages too.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pull {
    pub after_seq: Option<Seq>,
    pub limit: Option<i64>,
    /// Always the case: a page begins where it was asked to, also below the cursor.
    pub force: Option<bool>,
    pub ack_up_to_seq: Option<Seq>,
    pub window_mode: Option<String>,
    pub cursor_scope: Option<String>,
    pub sender_aid: Option<Aid>,
    pub after_volatile_cursor: Option<String>,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    #[serde(default, deserialize_with = "unread")]
    pub client_signature: Option<Box<ClientSignature>>,
}

impl Request for Pull {
    const METHOD: &'static str = "message.v2.pull";
    type Result = V2InboxPage;
}

/// A part of the inbox, encrypted messages included.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct V2InboxPage {
    /// Each is a [`V2ReceivedMessage`](super::V2ReceivedMessage).
    pub messages: Vec<Box<RawValue>>,
    pub count: usize,
    pub has_more: Option<bool>,
    pub latest_seq: i64,
    pub server_ack_seq: i64,
    pub retention_floor_seq: i64,
    #[serialize_always]
    pub earliest_available_seq: Option<i64>,
    pub latest_volatile_cursor: Option<String>,
    pub volatile_has_more: Option<bool>,
    pub volatile_earliest_cursor: Option<String>,
    pub volatile_dropped_count: Option<u64>,
    pub cursor_scope: Option<CursorScope>,
    pub sender_aid: Option<Aid>,
    pub device_id: Option<DeviceId>,
    pub slot_id: Option<SlotId>,
    pub window_mode: Option<WindowMode>,
    pub window_start_seq: Option<i64>,
    pub scan_after_seq: Option<i64>,
    pub covered_through_seq: Option<i64>,
    pub next_after_seq: Option<i64>,
    pub head_seq: Option<i64>,
    pub persistent_has_more: Option<bool>,
    pub next_pending_seq: Option<i64>,
    pub page_need_render_count: Option<u64>,
    pub page_non_render_count: Option<u64>,
}

/// Which part of an inbox a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowMode {
    /// The newest messages.
    Tail,
}

/// `message.v2.put_peer_pk`: store the key that others encrypt to for this device.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PutPeerPk {
    pub peer_aid: Aid,
    pub key_source: Option<Box<RawValue>>,
    pub spk_id: String,
    pub spk_pk: String,
    pub spk_signature: String,
    pub spk_timestamp: i64,
    #[serde(default, deserialize_with = "unread")]
    pub client_signature: Option<Box<ClientSignature>>,
}

impl Request for PutPeerPk {
    const METHOD: &'static str = "message.v2.put_peer_pk";
    type Result = StoredPeerKey;
}

/// The key that is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredPeerKey {
    pub ok: bool,
    pub device_id: DeviceId,
    pub spk_id: String,
}
