//! What the gateway tells a service about sessions.

use crate::{Aid, DeviceId};
use serde::{Deserialize, Serialize};

/// The parameters of `{namespace}.session_opened`, `session_resync` and `session_closed`, for each namespace whose
/// `namespace.json` has `"sessions": true`.
///
/// `session_opened` is awaited before the agent is told that it is connected; if the service cannot be reached,
/// `session_resync` follows when it can. `session_resync` also comes when events may have been missed. `session_closed` is
/// a hint that may be lost: presence is the truth.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionNotice {
    pub aid: Aid,
    #[serde(default)]
    pub device_id: DeviceId,
    /// 0 where all connections of the device are meant.
    #[serde(default)]
    pub connection: u64,
}
