//! `h2a.list`: the relations of a user, or of an agent.

use super::shown::shown;
use crate::callers::calling_aid;
use crate::paging::{PAGE, cut_page, read_cursor};
use crate::store::relations::RelationsWanted;
use crate::{AgentService, Error};
use kernel::Caller;
use proto_schemas::requests::h2a::{List, RelationPage, RelationStatus};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn list_relations(
        self: Arc<Self>,
        caller: Caller,
        params: List,
    ) -> Result<RelationPage, Error> {
        let viewer = calling_aid(&caller)?;
        let limit = PAGE.of(params.limit)?;
        let after = read_cursor(params.cursor.as_deref(), "")?;
        let agent = match params.agent_id {
            Some(id) => Some(self.store.agent(&id).await?.ok_or(Error::NoAgentRecord(id))?),
            None => None,
        };
        // Who is neither the agent nor its owner sees what is its own.
        let all = agent
            .as_ref()
            .is_some_and(|agent| agent.aid == viewer.as_str() || agent.owner == viewer.as_str());
        let wanted = RelationsWanted {
            user: (!all).then_some(viewer.as_str()),
            agent_id: agent.as_ref().map(|agent| agent.id.as_str()),
            status: params.status.map(RelationStatus::as_str),
            reauth_required: params.reauth_required,
            after: &after,
            // One more tells whether there is another page.
            limit: limit + 1,
        };
        let mut rows = self.store.relations(&wanted).await?;
        let next_cursor = cut_page(&mut rows, limit, |row| &row.id);
        Ok(RelationPage { relations: rows.into_iter().map(shown).collect(), next_cursor })
    }
}
