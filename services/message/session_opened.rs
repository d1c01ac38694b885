//! `message.session_opened`: a device connects; from the first time on it has an inbox.

use super::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::{SessionOpened, SessionOpenedResult};
use std::sync::Arc;

impl MessageService {
    pub(super) async fn session_opened(
        self: Arc<Self>,
        _: Caller,
        session: SessionOpened,
    ) -> Result<SessionOpenedResult, Error> {
        self.inboxes.join(&session.aid, &session.device_id, self.clock.now_ms()).await?;
        Ok(SessionOpenedResult { opened: true })
    }
}
