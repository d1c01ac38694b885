//! What the gateway tells of sessions.

use serde::{Deserialize, Serialize};

use crate::{Aid, DeviceId, Request};

/// `h2a.session_opened`: a device connects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionOpened {
    pub aid: Aid,
    #[serde(default)]
    pub device_id: DeviceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
}

impl Request for SessionOpened {
    const METHOD: &'static str = "h2a.session_opened";
    type Result = ArrivalNoted;
}

/// It is told what waits for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArrivalNoted {
    pub opened: bool,
}

/// `h2a.session_resync`: a device may have missed events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionResync {
    pub aid: Aid,
    #[serde(default)]
    pub device_id: DeviceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
}

impl Request for SessionResync {
    const METHOD: &'static str = "h2a.session_resync";
    type Result = PendingPublished;
}

/// How many events were published again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PendingPublished {
    pub published: i64,
}

/// `h2a.session_closed`: a session ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionClosed {
    pub aid: Aid,
    #[serde(default)]
    pub device_id: DeviceId,
    #[serde(default)]
    pub connection: u64,
}

impl Request for SessionClosed {
    const METHOD: &'static str = "h2a.session_closed";
    type Result = DepartureNoted;
}

/// Nothing depends on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DepartureNoted {
    pub closed: bool,
}
