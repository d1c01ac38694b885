//! `message.join`: a device connects for the first time; from now on it has an inbox.

use super::{Error, Message};
use crate::kernel::{Aid, Caller, DeviceId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct JoinParams {
    aid: Aid,
    #[serde(default)]
    device_id: DeviceId,
}

#[derive(Clone, Serialize)]
pub(super) struct Joined {
    joined: bool,
}

impl Message {
    pub(super) async fn join(self: Arc<Self>, _: Caller, params: JoinParams) -> Result<Joined, Error> {
        self.inboxes.join(&params.aid, &params.device_id, self.clock.now_ms()).await?;
        Ok(Joined { joined: true })
    }
}
