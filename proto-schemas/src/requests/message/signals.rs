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
