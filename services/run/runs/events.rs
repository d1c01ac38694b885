//! `run.events`: a page of the log.

use crate::RunService;
use crate::error::Error;
use crate::store::EventsWanted;
use kernel::{Caller, PageLimit};
use proto_schemas::requests::run::{Events, RunEventPage};
use std::sync::Arc;

pub(crate) const EVENTS_PAGE: PageLimit = PageLimit { default: 100, most: 500 };

impl RunService {
    pub(crate) async fn events(self: Arc<Self>, caller: Caller, params: Events) -> Result<RunEventPage, Error> {
        let run = self.run_of(&caller, &params.run_id).await?;
        let wanted = EventsWanted {
            run_id: &run.row.id,
            after_seq: params.after_seq.unwrap_or(0),
            limit: EVENTS_PAGE.of(params.limit)?,
            kinds: None,
        };
        Ok(self.store.events_page(&wanted, run.row.last_seq).await?)
    }
}
