//! `search.get_agent`: the document of one agent, as the directory has it.

use super::{Error, SearchService, agent_md_url};
use kernel::{Caller, iso};
use proto_schemas::requests::search::{FoundAgent, GetAgent};
use std::sync::Arc;

impl SearchService {
    pub(super) async fn get_agent(self: Arc<Self>, _: Caller, params: GetAgent) -> Result<FoundAgent, Error> {
        self.enabled()?;
        let hidden = self.peer_states.get();
        let found = self.store.document(params.aid.as_str()).await?;
        let visible = found.filter(|row| !hidden.hidden.contains(&row.source_ap));
        let row = visible.ok_or_else(|| Error::NoAgent(params.aid.to_string()))?;
        Ok(FoundAgent {
            agent_md_url: agent_md_url(&row.aid),
            aid: row.aid,
            agent_md: row.content,
            content_type: "text/markdown".to_owned(),
            updated_at: iso(row.updated_at),
            etag: format!("\"{}\"", row.sha256),
            sha256: row.sha256,
            source_ap: row.source_ap,
            signed: row.signed == 1,
            manifest_version: row.manifest_version,
            manifest_hash: row.manifest_hash,
        })
    }
}
