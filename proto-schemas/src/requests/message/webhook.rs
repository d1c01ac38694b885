//! Messages that are delivered to webhooks: what the agent service asks of the message service.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use crate::{Aid, Request};

/// How many agents one [`Waiting`] asks about.
pub const MOST_WAITING_AIDS: usize = 100;

/// `message.webhook.put_device`: create the device of an agent's webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PutDevice {
    pub aid: Aid,
}

impl Request for PutDevice {
    const METHOD: &'static str = "message.webhook.put_device";
    type Result = PutDeviceResult;
}

/// It has the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PutDeviceResult {
    pub ok: bool,
}

/// `message.webhook.remove_device`: remove the device of an agent's webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoveDevice {
    pub aid: Aid,
}

impl Request for RemoveDevice {
    const METHOD: &'static str = "message.webhook.remove_device";
    type Result = RemoveDeviceResult;
}

/// It does not have the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RemoveDeviceResult {
    pub ok: bool,
}

/// `message.webhook.next`: get the next message for a webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Next {
    pub aid: Aid,
}

impl Request for Next {
    const METHOD: &'static str = "message.webhook.next";
    type Result = NextResult;
}

/// The next message, if there is one.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NextResult {
    pub device: bool,
    pub next: Option<NextMessage>,
}

/// A message for a webhook, as it is passed on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NextMessage {
    pub seq: i64,
    pub message_id: String,
    pub sent_at: i64,
    #[serde(rename = "type")]
    pub kind: String,
    pub message: Box<RawValue>,
}

/// `message.webhook.ack`: record that a webhook has accepted all messages up to a seq.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ack {
    pub aid: Aid,
    pub seq: i64,
    pub skipped: Option<bool>,
}

impl Request for Ack {
    const METHOD: &'static str = "message.webhook.ack";
    type Result = WebhookAckResult;
}

/// Where the cursor is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WebhookAckResult {
    pub ack_seq: i64,
}

/// `message.webhook.waiting`: list the webhooks that messages wait for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    pub aids: Vec<Aid>,
}

impl Request for Waiting {
    const METHOD: &'static str = "message.webhook.waiting";
    type Result = WaitingResult;
}

/// Those for whom something waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitingResult {
    pub waiting: Vec<WaitingWebhook>,
}

/// That messages wait for a webhook, up to this seq.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingWebhook {
    pub aid: Aid,
    pub seq: i64,
}
