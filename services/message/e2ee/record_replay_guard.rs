//! `message.e2ee.record_replay_guard`: note that this device decrypted a message, and learn whether it had before.

use super::super::keys::Guard;
use super::super::{Error, Message};
use crate::kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const LONGEST_ID: usize = 256;

#[derive(Deserialize)]
pub(crate) struct ReplayGuardParams {
    sender_aid: Aid,
    message_id: String,
}

#[derive(Clone, Serialize)]
pub(crate) struct ReplayGuard {
    pub duplicate: bool,
}

impl Message {
    pub(in super::super) async fn record_replay_guard(
        self: Arc<Self>,
        caller: Caller,
        params: ReplayGuardParams,
    ) -> Result<ReplayGuard, Error> {
        let guard = params.guard(&caller)?;
        Ok(ReplayGuard { duplicate: self.keys.guard(&guard, self.clock.now_ms()).await? })
    }
}

impl ReplayGuardParams {
    pub(super) fn guard(&self, caller: &Caller) -> Result<Guard, Error> {
        let session = caller.session()?;
        if self.message_id.is_empty() || self.message_id.len() > LONGEST_ID {
            return Err(Error::Param(format!("params.message_id: has 1 to {LONGEST_ID} bytes")));
        }
        Ok(Guard::new(&session.aid, &session.device, &self.sender_aid, &self.message_id))
    }
}
