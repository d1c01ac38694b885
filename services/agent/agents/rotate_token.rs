//! `agent.rotate_token`: the owner replaces the token of an agent, and the secret of its webhook if that is wanted.

use super::tokens::{hash_of, new_token, new_webhook_secret};
use crate::callers::calling_aid;
use crate::store::agents;
use crate::{AgentService, Error};
use kernel::Caller;
use proto_schemas::requests::agent::{RotateToken, RotatedAgentToken};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn rotate_token(
        self: Arc<Self>,
        caller: Caller,
        params: RotateToken,
    ) -> Result<RotatedAgentToken, Error> {
        let owner = calling_aid(&caller)?;
        let agent_token = new_token(&self.ids);
        let mut tx = self.store.begin().await?;
        let found = agents::lock(&mut tx, &params.id).await?;
        let mut row = found.ok_or(Error::NoAgentRecord(params.id))?;
        if row.owner != owner.as_str() {
            return Err(Error::NotOwner(row.id));
        }
        let wanted = params.webhook_secret.unwrap_or_default() && row.webhook_url.is_some();
        let webhook_secret = wanted.then(|| new_webhook_secret(&self.ids));
        row.token_hash = hash_of(&agent_token);
        row.webhook_secret = webhook_secret.clone().or(row.webhook_secret);
        row.updated_at = self.clock.now_ms();
        agents::write(&mut tx, &row).await?;
        self.store.commit(tx).await?;
        Ok(RotatedAgentToken { agent_token, webhook_secret })
    }
}
