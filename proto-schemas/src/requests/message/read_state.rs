//! How far an agent, on any of its devices, has read a topic.

use serde::{Deserialize, Serialize};
use serde_with::rust::double_option;
use serde_with::skip_serializing_none;

use crate::Request;

/// `message.read`: say how far the caller has read.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Read {
    pub states: Option<Vec<ReadMark>>,
    pub scope: Option<String>,
    pub topic_key: Option<String>,
    pub last_read_message_id: Option<String>,
}

impl Request for Read {
    const METHOD: &'static str = "message.read";
    type Result = ReadResult;
}

/// How far one topic was read.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadMark {
    pub scope: Option<String>,
    pub topic_key: String,
    pub last_read_message_id: String,
}

/// How far the caller has read each topic now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadResult {
    pub updated: usize,
    pub ignored: usize,
    pub states: Vec<ReadMarkResult>,
}

/// How far one topic is read now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadMarkResult {
    pub scope: ReadScope,
    pub topic_key: String,
    pub last_read_message_id: String,
    pub changed: bool,
}

/// `message.read_state`: ask how far was read.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadState {
    pub scope: Option<String>,
    pub topic_key: Option<String>,
    pub aid: Option<String>,
}

impl Request for ReadState {
    const METHOD: &'static str = "message.read_state";
    type Result = ReadStateResult;
}

/// How far was read. A single state is in it twice: in the list, and outside of it for clients that read it there.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadStateResult {
    pub scope: ReadScope,
    pub states: Vec<TopicReadState>,
    pub topic_key: Option<String>,
    pub last_read_message_id: Option<String>,
    pub last_read_order: Option<i64>,
    /// Null where there is a single state and its message is not in the inbox of the calling device.
    #[serde(default, with = "double_option")]
    pub current_device_seq: Option<Option<i64>>,
    pub mapping_status: Option<MappingStatus>,
    pub updated_at: Option<i64>,
}

/// How far one topic was read.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicReadState {
    pub scope: ReadScope,
    pub topic_key: String,
    pub last_read_message_id: String,
    pub last_read_order: i64,
    #[serialize_always]
    pub current_device_seq: Option<i64>,
    pub mapping_status: MappingStatus,
    pub updated_at: i64,
}

/// Which topics are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadScope {
    /// Conversations of two agents.
    P2p,
}

/// What is known of the last message that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MappingStatus {
    /// It is in the inbox of the calling device.
    Resolved,
    /// It is in other inboxes only.
    NotReceived,
    /// It is not found, as before it comes and after it was removed.
    Unresolved,
}
