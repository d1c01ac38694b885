//! `agent.get_agent_md`: the document as it was published, or in the form that older clients read.

use super::put_agent_md::etag;
use super::{AgentService, Error};
use kernel::Caller;
use kernel::agent_md::AgentMd;
use proto_schemas::requests::agent::{FoundAgentMd, GetAgentMd};
use std::sync::Arc;

impl AgentService {
    pub(super) async fn get_agent_md(
        self: Arc<Self>,
        _: Caller,
        params: GetAgentMd,
    ) -> Result<FoundAgentMd, Error> {
        let Some((content, stored_etag, updated_at)) = self.store.get(params.aid.as_str()).await? else {
            return Ok(FoundAgentMd::default());
        };
        let (content, etag) = match params.multi.unwrap_or_default() {
            true => (content, stored_etag),
            false => {
                let single = AgentMd::single_signature_form(&content);
                let etag = etag(&single);
                (single, etag)
            }
        };
        Ok(FoundAgentMd {
            found: true,
            content: Some(content),
            etag: Some(etag),
            last_modified: Some(updated_at),
        })
    }
}
