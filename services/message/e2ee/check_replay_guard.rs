//! `message.e2ee.check_replay_guard`: say whether this device decrypted a message before, and remember nothing.

use super::record_replay_guard::replay_key;
use crate::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::e2ee::{CheckReplayGuard, ReplayCheck};
use std::sync::Arc;

impl MessageService {
    pub(in super::super) async fn check_replay_guard(
        self: Arc<Self>,
        caller: Caller,
        message: CheckReplayGuard,
    ) -> Result<ReplayCheck, Error> {
        let guard = replay_key(&caller, &message.sender_aid, &message.message_id)?;
        Ok(ReplayCheck { duplicate: self.keys.is_guarded(&guard, self.clock.now_ms()).await? })
    }
}
