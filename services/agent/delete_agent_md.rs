//! `agent.delete_agent_md`: the agent has no document any more, unless it has changed meanwhile.

use super::store::{AgentMdWrite, Condition};
use super::{AgentService, Error};
use kernel::{Aid, Caller};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct DeleteAgentMdParams {
    pub aid: Aid,
    #[serde(default)]
    pub if_match: Option<String>,
}

#[derive(Clone, Serialize)]
pub(super) struct AgentMdDeleted {
    aid: Aid,
    deleted_at: i64,
}

impl AgentService {
    pub(super) async fn delete_agent_md(
        self: Arc<Self>,
        _: Caller,
        params: DeleteAgentMdParams,
    ) -> Result<AgentMdDeleted, Error> {
        let DeleteAgentMdParams { aid, if_match } = params;
        let now = self.clock.now_ms();
        match self.store.delete(aid.as_str(), now, &Condition::of(if_match.as_deref(), None)).await? {
            AgentMdWrite::Written | AgentMdWrite::Unchanged(_) => {}
            AgentMdWrite::Refused | AgentMdWrite::Unsigned => return Err(Error::Changed(aid.to_string())),
            AgentMdWrite::Absent => return Err(Error::NotFound(aid.to_string())),
        }
        self.tell_readers();
        Ok(AgentMdDeleted { aid, deleted_at: now })
    }
}
