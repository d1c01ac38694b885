//! What `message` tells the other processes.

use serde::{Deserialize, Serialize};

use crate::{Aid, Signal};

/// `message.devices_removed`: devices of an agent were removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DevicesRemoved {
    pub aid: Aid,
}

impl Signal for DevicesRemoved {
    const NAME: &'static str = "message.devices_removed";
}

/// `message.for_webhook`: a message came for the device of a webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForWebhook {
    pub aid: Aid,
    /// Its seq in the inbox of that device.
    pub seq: i64,
}

impl Signal for ForWebhook {
    const NAME: &'static str = "message.for_webhook";
}
