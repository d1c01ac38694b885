//! `message.session_closed`: what was to be sent once more to the connection is dropped.

use super::{Error, MessageService};
use kernel::Caller;
use proto_schemas::requests::message::{SessionClosed, SessionClosedResult};
use std::sync::Arc;

impl MessageService {
    pub(super) async fn session_closed(
        self: Arc<Self>,
        _: Caller,
        session: SessionClosed,
    ) -> Result<SessionClosedResult, Error> {
        self.notifying.lock().remove(&session.connection);
        self.reminded.lock().remove(&session.connection);
        Ok(SessionClosedResult { closed: true })
    }
}
