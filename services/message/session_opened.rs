//! `message.session_opened`: a device connects; from the first time on it has an inbox.

use super::{Error, MessageService};
use kernel::{Caller, SessionNotice};
use serde::Serialize;
use std::sync::Arc;

#[derive(Clone, Serialize)]
pub(super) struct OpenedSession {
    opened: bool,
}

impl MessageService {
    pub(super) async fn session_opened(
        self: Arc<Self>,
        _: Caller,
        params: SessionNotice,
    ) -> Result<OpenedSession, Error> {
        self.inboxes.join(&params.aid, &params.device_id, self.clock.now_ms()).await?;
        Ok(OpenedSession { opened: true })
    }
}
