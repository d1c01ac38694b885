//! What the gateway tells the message service of sessions.

use serde::{Deserialize, Serialize};

use crate::{Aid, DeviceId, Request};

/// `message.session_opened`: give a device its inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionOpened {
    pub aid: Aid,
    #[serde(default)]
    pub device_id: DeviceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
}

impl Request for SessionOpened {
    const METHOD: &'static str = "message.session_opened";
    type Result = SessionOpenedResult;
}

/// The device has its inbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionOpenedResult {
    pub opened: bool,
}

/// `message.session_resync`: publish the newest unread message of a device again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionResync {
    pub aid: Aid,
    #[serde(default)]
    pub device_id: DeviceId,
    /// 0, too, stands for all connections of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
}

impl Request for SessionResync {
    const METHOD: &'static str = "message.session_resync";
    type Result = SessionResyncResult;
}

/// Whether an event was published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionResyncResult {
    pub published: bool,
}

/// `message.session_closed`: a session ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionClosed {
    pub aid: Aid,
    #[serde(default)]
    pub device_id: DeviceId,
    #[serde(default)]
    pub connection: u64,
}

impl Request for SessionClosed {
    const METHOD: &'static str = "message.session_closed";
    type Result = SessionClosedResult;
}

/// It is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionClosedResult {
    pub closed: bool,
}
