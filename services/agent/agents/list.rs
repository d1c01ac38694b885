//! `agent.list`: the agents that the caller owns.

use super::record::record;
use crate::callers::calling_aid;
use crate::paging::{PAGE, cut_page, read_cursor};
use crate::{AgentService, Error};
use kernel::Caller;
use proto_schemas::requests::agent::{AgentRecordPage, List};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn list(
        self: Arc<Self>,
        caller: Caller,
        params: List,
    ) -> Result<AgentRecordPage, Error> {
        let owner = calling_aid(&caller)?;
        let limit = PAGE.of(params.limit)?;
        let after = read_cursor(params.cursor.as_deref(), "")?;
        // One more tells whether there is another page.
        let mut rows = self.store.agents_of(owner.as_str(), &after, limit + 1).await?;
        let next_cursor = cut_page(&mut rows, limit, |row| &row.id);
        Ok(AgentRecordPage { agents: rows.into_iter().map(|row| record(row, owner)).collect(), next_cursor })
    }
}
