//! What front ends ask: runs of conversations, their frames and their history.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use crate::Request;

/// `agui.run`: run a turn of a conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// An object, or its JSON as a text.
    pub input: Box<RawValue>,
}

impl Request for Run {
    const METHOD: &'static str = "agui.run";
    type Result = AcceptedTurn;
}

/// A run that is stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedTurn {
    pub task_id: String,
    pub thread_id: String,
    pub run_id: String,
    pub created: bool,
}

/// `agui.cancel`: cancel a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cancel {
    pub thread_id: String,
    pub run_id: Option<String>,
}

impl Request for Cancel {
    const METHOD: &'static str = "agui.cancel";
    type Result = CancelledTurn;
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelledTurn {
    pub thread_id: String,
    pub run_id: String,
    pub accepted: bool,
}

/// `agui.history`: the messages of a day of a conversation.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    pub thread_id: Option<String>,
    pub before: Option<String>,
}

impl Request for History {
    const METHOD: &'static str = "agui.history";
    type Result = HistoryDay;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryDay {
    pub scope: HistoryScope,
    pub thread_id: Option<String>,
    pub day: Option<String>,
    pub has_more: bool,
    pub messages: Vec<HistoryMessage>,
}

/// What a page of messages is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryScope {
    #[default]
    #[serde(rename = "history_day")]
    Day,
}

/// A message as its owner is shown it. Only those of users have `attachments`, and only those of assistants `ui_schema`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryMessage {
    pub id: String,
    pub seq: i64,
    pub role: HistoryRole,
    pub content: String,
    pub attachments: Option<Vec<HistoryAttachment>>,
    /// An object or null.
    #[serde(default, with = "serde_with::rust::double_option")]
    pub ui_schema: Option<Option<Value>>,
    pub timestamp: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HistoryRole {
    User,
    Assistant,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryAttachment {
    pub mime_type: String,
    pub url: String,
}

/// `agui.profile`: the profile of the caller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {}

impl Request for Profile {
    const METHOD: &'static str = "agui.profile";
    type Result = UserProfile;
}

/// `agui.set_profile`: set the profile of the caller.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SetProfile {
    pub timezone: Option<String>,
}

impl Request for SetProfile {
    const METHOD: &'static str = "agui.set_profile";
    type Result = UserProfile;
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserProfile {
    pub timezone: Option<String>,
}

/// `agui.attachment_url`: sign the URL of a picture again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AttachmentUrl {
    pub bucket: String,
    pub path: String,
}

impl Request for AttachmentUrl {
    const METHOD: &'static str = "agui.attachment_url";
    type Result = SignedAttachment;
}

/// A picture, and where it can be had for a while.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedAttachment {
    pub url: String,
    pub mime_type: String,
    pub bucket: String,
    pub path: String,
    pub expires_at: String,
}

/// `agui.subscribe`: be told of the frames of a conversation over this connection.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscribe {
    pub thread_id: String,
    pub run_id: Option<String>,
    pub last_event_id: Option<String>,
}

impl Request for Subscribe {
    const METHOD: &'static str = "agui.subscribe";
    type Result = SubscribedThread;
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubscribedThread {
    pub subscribed: bool,
}

/// `agui.unsubscribe`: be told of them no more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unsubscribe {
    pub thread_id: String,
}

impl Request for Unsubscribe {
    const METHOD: &'static str = "agui.unsubscribe";
    type Result = UnsubscribedThread;
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnsubscribedThread {
    pub unsubscribed: bool,
}
