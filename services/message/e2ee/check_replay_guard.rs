//! `message.e2ee.check_replay_guard`: say whether this device decrypted a message before, and remember nothing.

use super::record_replay_guard::{ReplayGuard, ReplayGuardParams};
use crate::{Error, MessageService};
use kernel::Caller;
use std::sync::Arc;

impl MessageService {
    pub(in super::super) async fn check_replay_guard(
        self: Arc<Self>,
        caller: Caller,
        params: ReplayGuardParams,
    ) -> Result<ReplayGuard, Error> {
        let guard = params.guard(&caller)?;
        Ok(ReplayGuard { duplicate: self.keys.is_guarded(&guard, self.clock.now_ms()).await? })
    }
}
