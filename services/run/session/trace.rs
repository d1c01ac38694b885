//! `session.trace`: all events of a run of a session.

use crate::RunService;
use crate::error::Error;
use crate::shown::events_shown;
use kernel::Caller;
use proto_schemas::requests::run::{RunEventPage, RunEventType};
use proto_schemas::requests::session::Trace;
use std::sync::Arc;

pub(super) const DEFAULT_LIMIT: i64 = 100;
pub(super) const MOST: i64 = 500;
pub(super) const OUTPUT: [RunEventType; 4] = [
    RunEventType::AssistantMessage,
    RunEventType::CommandOutput,
    RunEventType::Error,
    RunEventType::TerminalStatus,
];

impl RunService {
    pub(crate) async fn session_trace(
        self: Arc<Self>,
        caller: Caller,
        params: Trace,
    ) -> Result<RunEventPage, Error> {
        self.session_events(&caller, params, &[]).await
    }

    pub(super) async fn session_events(
        &self,
        caller: &Caller,
        params: Trace,
        kinds: &[RunEventType],
    ) -> Result<RunEventPage, Error> {
        let (after, limit) = (params.after_seq.unwrap_or(0), params.limit.unwrap_or(DEFAULT_LIMIT));
        if after < 0 {
            return Err(Error::Invalid("afterSeq must be at least 0".to_owned()));
        }
        if !(1..=MOST).contains(&limit) {
            return Err(Error::Invalid(format!("limit must be between 1 and {MOST}")));
        }
        let session = self.visible_session(caller, &params.session_id, "").await?;
        let run = match params.run_id {
            Some(run) if self.store.is_run_of_session(&run, &session.id).await? => Some(run),
            Some(run) => return Err(Error::NotFound(format!("run {run} of session {}", session.id))),
            None => session.active_run.or(session.last_run),
        };
        let Some(run) = run else {
            return Ok(RunEventPage {
                events: Vec::new(),
                last_seq: 0,
                next_after_seq: after,
                has_more: false,
            });
        };
        let page = self.store.events_page(&run, after, limit, kinds).await?;
        Ok(events_shown(&run, page)?)
    }
}
