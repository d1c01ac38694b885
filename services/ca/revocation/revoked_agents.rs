//! `ca.revoked_agents`: who has no certificate left that is not revoked. Such a name is never registered again.

use crate::{CaService, Error};
use kernel::{Caller, PageLimit};
use proto_schemas::requests::ca::{RevokedAgent, RevokedAgents, RevokedAgentsPage};
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(200, 1000);

impl CaService {
    pub(crate) async fn revoked_agents(
        self: Arc<Self>,
        _: Caller,
        params: RevokedAgents,
    ) -> Result<RevokedAgentsPage, Error> {
        let limit = PAGE.of(params.limit)?;
        let after_aid = params.after_aid.unwrap_or_default();
        let mut rows = self.store.revoked_agents(params.since, &after_aid, limit + 1).await?;
        let page = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = rows.len() > page;
        rows.truncate(page);
        let agents = rows.into_iter().map(|(aid, revoked_at)| RevokedAgent { aid, revoked_at }).collect();
        Ok(RevokedAgentsPage { agents, has_more })
    }
}
