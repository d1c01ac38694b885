//! Calls of `message.e2ee`: keys and replay protection of the first kind of encryption.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use crate::{Aid, Request};

/// `message.e2ee.check_replay_guard`: ask whether a message was decrypted before.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckReplayGuard {
    pub sender_aid: Aid,
    pub message_id: String,
    pub encryption_mode: Option<Box<RawValue>>,
    pub timestamp_ms: Option<Box<RawValue>>,
    pub ephemeral_pk_hash: Option<Box<RawValue>>,
}

impl Request for CheckReplayGuard {
    const METHOD: &'static str = "message.e2ee.check_replay_guard";
    type Result = ReplayCheck;
}

/// Whether the message was decrypted before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayCheck {
    pub duplicate: bool,
}

/// `message.e2ee.get_prekey`: get the keys to encrypt to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GetPrekey {
    pub aid: Aid,
}

impl Request for GetPrekey {
    const METHOD: &'static str = "message.e2ee.get_prekey";
    type Result = FoundPrekeys;
}

/// The keys of an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FoundPrekeys {
    pub found: bool,
    #[serialize_always]
    pub prekey: Option<AgentPrekey>,
    #[serde(default)]
    pub device_prekeys: Vec<AgentPrekey>,
}

/// A key to encrypt to, and its signature, exactly as they were given.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentPrekey {
    pub prekey_id: String,
    pub public_key: String,
    pub signature: String,
    pub created_at: Option<i64>,
    /// Absent for clients that predate devices.
    pub device_id: Option<String>,
    pub cert_fingerprint: Option<String>,
}

/// `message.e2ee.put_prekey`: store a key that others may encrypt to.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PutPrekey {
    pub prekey_id: String,
    pub public_key: String,
    pub signature: String,
    pub created_at: Option<i64>,
    pub cert_fingerprint: Option<String>,
    pub device_id: Option<String>,
}

impl Request for PutPrekey {
    const METHOD: &'static str = "message.e2ee.put_prekey";
    type Result = StoredPrekey;
}

/// The key that is stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredPrekey {
    pub ok: bool,
    pub prekey_id: String,
}

/// `message.e2ee.record_replay_guard`: record that a message was decrypted.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordReplayGuard {
    pub sender_aid: Aid,
    pub message_id: String,
    pub encryption_mode: Option<Box<RawValue>>,
    pub timestamp_ms: Option<Box<RawValue>>,
    pub ephemeral_pk_hash: Option<Box<RawValue>>,
}

impl Request for RecordReplayGuard {
    const METHOD: &'static str = "message.e2ee.record_replay_guard";
    type Result = ReplayRecord;
}

/// Whether the message had been recorded before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayRecord {
    pub duplicate: bool,
}
