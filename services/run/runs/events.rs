//! `run.events`: a page of the log.

use crate::RunService;
use crate::error::Error;
use crate::shown::events_shown;
use kernel::{Caller, PageLimit};
use proto_schemas::requests::run::{Events, RunEventPage};
use std::sync::Arc;

pub(crate) const EVENTS_PAGE: PageLimit = PageLimit::new(100, 500);

impl RunService {
    pub(crate) async fn events(
        self: Arc<Self>,
        caller: Caller,
        params: Events,
    ) -> Result<RunEventPage, Error> {
        let run = self.run_of(&caller, &params.run_id).await?;
        let (after, limit) = (params.after_seq.unwrap_or(0), EVENTS_PAGE.of(params.limit)?);
        let page = self.store.events_page(&run.row.id, after, limit, &[]).await?;
        Ok(events_shown(&run.row.id, page)?)
    }
}
