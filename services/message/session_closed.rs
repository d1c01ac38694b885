//! `message.session_closed`: what was to be sent once more to the connection is dropped.

use super::{Error, MessageService};
use kernel::{Caller, SessionNotice};
use serde::Serialize;
use std::sync::Arc;

#[derive(Clone, Serialize)]
pub(super) struct ClosedSession {
    closed: bool,
}

impl MessageService {
    pub(super) async fn session_closed(
        self: Arc<Self>,
        _: Caller,
        params: SessionNotice,
    ) -> Result<ClosedSession, Error> {
        self.notifying.lock().remove(&params.connection);
        Ok(ClosedSession { closed: true })
    }
}
