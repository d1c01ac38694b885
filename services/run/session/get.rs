//! `session.get`: read a session.

use crate::RunService;
use crate::error::Error;
use crate::session::record::{reader_of, record};
use kernel::Caller;
use proto_schemas::requests::session::{Get, GotRunSession};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn session_get(
        self: Arc<Self>,
        caller: Caller,
        params: Get,
    ) -> Result<GotRunSession, Error> {
        let reader = reader_of(params.reader_id)?;
        let session = self.visible_session(&caller, &params.session_id, &reader).await?;
        let run = session.active_run.clone().or_else(|| session.last_run.clone());
        let mut session = record(session);
        if let Some(run) = run {
            session.liveness = self.liveness_of(&run).await?;
        }
        Ok(GotRunSession { session })
    }
}
