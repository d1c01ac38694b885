//! `message.e2ee.record_replay_guard`: remember that this device decrypted a message, and say whether it had before.

use super::keys::ReplayKey;
use crate::{Error, MessageService};
use kernel::{Aid, Caller};
use proto_schemas::requests::message::e2ee::{RecordReplayGuard, ReplayRecord};
use std::sync::Arc;

const MAX_ID_BYTES: usize = 256;

impl MessageService {
    pub(in super::super) async fn record_replay_guard(
        self: Arc<Self>,
        caller: Caller,
        message: RecordReplayGuard,
    ) -> Result<ReplayRecord, Error> {
        let guard = replay_key(&caller, &message.sender_aid, &message.message_id)?;
        Ok(ReplayRecord { duplicate: self.keys.guard(&guard, self.clock.now_ms()).await? })
    }
}

/// The name of a message on the caller's device.
pub(super) fn replay_key(caller: &Caller, sender: &Aid, message_id: &str) -> Result<ReplayKey, Error> {
    let session = caller.connected_agent()?;
    if message_id.is_empty() || message_id.len() > MAX_ID_BYTES {
        return Err(Error::Param(format!("message_id must have 1 to {MAX_ID_BYTES} bytes")));
    }
    Ok(ReplayKey::new(&session.aid, &session.device, sender, message_id))
}
