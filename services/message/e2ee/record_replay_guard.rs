//! `message.e2ee.record_replay_guard`: remember that this device decrypted a message, and say whether it had before.

use super::keys::ReplayKey;
use crate::{Error, MessageService};
use kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const MAX_ID_BYTES: usize = 256;

#[derive(Deserialize)]
pub(crate) struct ReplayGuardParams {
    sender_aid: Aid,
    message_id: String,
}

#[derive(Clone, Serialize)]
pub(crate) struct ReplayGuard {
    pub duplicate: bool,
}

impl MessageService {
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
    pub(super) fn guard(&self, caller: &Caller) -> Result<ReplayKey, Error> {
        let session = caller.session()?;
        if self.message_id.is_empty() || self.message_id.len() > MAX_ID_BYTES {
            return Err(Error::Param(format!("params.message_id: must have 1 to {MAX_ID_BYTES} bytes")));
        }
        Ok(ReplayKey::new(&session.aid, &session.device, &self.sender_aid, &self.message_id))
    }
}
