//! `session.output`: what a run of a session has said and printed.

use crate::RunService;
use crate::error::Error;
use crate::session::trace::OUTPUT;
use kernel::Caller;
use proto_schemas::requests::run::RunEventPage;
use proto_schemas::requests::session::{Output, Trace};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn session_output(
        self: Arc<Self>,
        caller: Caller,
        params: Output,
    ) -> Result<RunEventPage, Error> {
        let Output { session_id, run_id, after_seq, limit } = params;
        self.session_events(&caller, Trace { session_id, run_id, after_seq, limit }, &OUTPUT).await
    }
}
