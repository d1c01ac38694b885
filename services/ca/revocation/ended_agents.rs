//! `ca.ended_agents`: who has no certificate left that is neither revoked nor lapsed.
//!
//! A revoked name is never registered again. One that lapsed is, and then nothing of its last holder may be left: the services say here
//! how far they have removed it, and a claim of the name waits for that (`store/lapsed.rs`).

use crate::{CaService, Error};
use kernel::{Caller, PageLimit};
use proto_schemas::requests::ca::{EndedAgent, EndedAgents, EndedAgentsPage};
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(200, 1000);

impl CaService {
    pub(crate) async fn ended_agents(
        self: Arc<Self>,
        caller: Caller,
        params: EndedAgents,
    ) -> Result<EndedAgentsPage, Error> {
        let limit = PAGE.of(params.limit)?;
        // Only the first page begins where the service has stored that it was; the operator has removed nothing.
        if let (Some(service), None) = (caller.service_name(), &params.after_aid) {
            self.store.removed_until(service, params.since).await?;
        }
        let after_aid = params.after_aid.unwrap_or_default();
        let now = self.clock.now_seconds();
        let mut rows = self.store.ended_agents(params.since, &after_aid, now, limit + 1).await?;
        let page = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = rows.len() > page;
        rows.truncate(page);
        let agents = rows.into_iter().map(|(aid, ended_at)| EndedAgent { aid, ended_at }).collect();
        Ok(EndedAgentsPage { agents, has_more })
    }
}
