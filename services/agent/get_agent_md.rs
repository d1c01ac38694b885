//! `agent.get_agent_md`: the document as it was published, or in the form that older clients read.

use super::put_agent_md::etag;
use super::{AgentService, Error};
use kernel::agent_md::AgentMd;
use kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct GetAgentMdParams {
    pub aid: Aid,
    /// Whether the reader knows of several signature blocks.
    #[serde(default)]
    pub multi: bool,
}

#[derive(Clone, Serialize, Default)]
pub(super) struct GotAgentMd {
    found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<i64>,
}

impl AgentService {
    pub(super) async fn get_agent_md(
        self: Arc<Self>,
        _: Caller,
        params: GetAgentMdParams,
    ) -> Result<GotAgentMd, Error> {
        let Some((content, stored_etag, updated_at)) = self.store.get(params.aid.as_str()).await? else {
            return Ok(GotAgentMd::default());
        };
        let (content, etag) = match params.multi {
            true => (content, stored_etag),
            false => {
                let single = AgentMd::single_signature_form(&content);
                let etag = etag(&single);
                (single, etag)
            }
        };
        Ok(GotAgentMd {
            found: true,
            content: Some(content),
            etag: Some(etag),
            last_modified: Some(updated_at),
        })
    }
}
