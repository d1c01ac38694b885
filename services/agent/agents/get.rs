//! `agent.get`: a registered agent, with its manifest.

use super::record::record;
use crate::agent::callers::reader;
use crate::agent::{Agent, Error};
use crate::kernel::Caller;
use proto_schemas::requests::agent::{self, GotAgentRecord};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
pub(in crate::agent) struct GetParams {
    id: String,
}

impl Agent {
    pub(in crate::agent) async fn get(
        self: Arc<Self>,
        caller: Caller,
        params: GetParams,
    ) -> Result<GotAgentRecord, Error> {
        let viewer = reader(&caller)?;
        let there = agent::Get { id: params.id.clone() };
        if let Some(found) = self.at_its_domain(&caller, &params.id, &there).await? {
            return Ok(found);
        }
        let found = self.store.agent(&params.id).await?;
        let row = found.ok_or(Error::NoAgentRecord(params.id))?;
        Ok(GotAgentRecord { agent: record(row, viewer) })
    }
}
