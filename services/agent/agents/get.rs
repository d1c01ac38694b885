//! `agent.get`: a registered agent, with its manifest.

use super::record::record;
use crate::callers::calling_aid;
use crate::{AgentService, Error};
use kernel::Caller;
use proto_schemas::requests::agent::{Get, GotAgentRecord};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn get(self: Arc<Self>, caller: Caller, params: Get) -> Result<GotAgentRecord, Error> {
        let viewer = calling_aid(&caller)?;
        if let Some(found) = self.at_its_domain(&caller, &params.id, &params).await? {
            return Ok(found);
        }
        let found = self.store.agent(&params.id).await?;
        let row = found.ok_or(Error::NoAgentRecord(params.id))?;
        Ok(GotAgentRecord { agent: record(row, viewer) })
    }
}
