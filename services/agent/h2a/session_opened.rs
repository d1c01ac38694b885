//! `h2a.session_opened`: a device connects, and is told what its agent should be asked about once it is there.

use crate::{AgentService, Error};
use kernel::Caller;
use proto_schemas::requests::h2a::{ArrivalNoted, SessionOpened};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn session_opened(
        self: Arc<Self>,
        _: Caller,
        params: SessionOpened,
    ) -> Result<ArrivalNoted, Error> {
        // No login waits for the store here: what is pending is looked up afterwards.
        self.arrivals.note(params);
        Ok(ArrivalNoted { opened: true })
    }
}
