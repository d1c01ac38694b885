//! `agent.delete_agent_md`: the agent has no document any more, unless it has changed meanwhile.

use super::store::{AgentMdWrite, Condition};
use super::{AgentService, Error};
use kernel::Caller;
use proto_schemas::requests::agent::{DeleteAgentMd, RemovedAgentMd};
use std::sync::Arc;

impl AgentService {
    pub(super) async fn delete_agent_md(
        self: Arc<Self>,
        _: Caller,
        params: DeleteAgentMd,
    ) -> Result<RemovedAgentMd, Error> {
        let DeleteAgentMd { aid, if_match } = params;
        let now = self.clock.now_ms();
        match self.store.delete(aid.as_str(), now, &Condition::of(if_match.as_deref(), None)).await? {
            AgentMdWrite::Written | AgentMdWrite::Unchanged(_) | AgentMdWrite::Full(_) => {}
            AgentMdWrite::Refused | AgentMdWrite::Unsigned => return Err(Error::Changed(aid.to_string())),
            AgentMdWrite::Absent => return Err(Error::NotFound(aid.to_string())),
        }
        self.tell_readers();
        Ok(RemovedAgentMd { aid, deleted_at: now })
    }
}
