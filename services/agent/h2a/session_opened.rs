//! `h2a.session_opened`: a device connects, and is told what its agent should be asked about once it is there.

use crate::agent::{Agent, Error};
use crate::kernel::{Caller, SessionNotice};
use proto_schemas::requests::h2a::ArrivalNoted;
use std::sync::Arc;

impl Agent {
    pub(in crate::agent) async fn session_opened(
        self: Arc<Self>,
        _: Caller,
        params: SessionNotice,
    ) -> Result<ArrivalNoted, Error> {
        // No login waits for the store here: what is pending is looked up afterwards.
        self.arrivals.note(params);
        Ok(ArrivalNoted { opened: true })
    }
}
