//! `h2a.session_closed`: a session ended. Nothing is kept of sessions here.

use crate::{AgentService, Error};
use kernel::Caller;
use proto_schemas::requests::h2a::{DepartureNoted, SessionClosed};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn session_closed(
        self: Arc<Self>,
        _: Caller,
        _: SessionClosed,
    ) -> Result<DepartureNoted, Error> {
        Ok(DepartureNoted { closed: true })
    }
}
