//! `agent.delete`: the owner removes an agent, and with it every relation with it ends.

use crate::callers::calling_aid;
use crate::store::agents;
use crate::store::touch_document;
use crate::{AgentService, Error};
use kernel::{Caller, iso};
use proto_schemas::requests::agent::{Delete, DeletedAgentRecord};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn delete(
        self: Arc<Self>,
        caller: Caller,
        params: Delete,
    ) -> Result<DeletedAgentRecord, Error> {
        let (owner, now) = (calling_aid(&caller)?, self.clock.now_ms());
        let mut tx = self.store.begin().await?;
        let found = agents::lock(&mut tx, &params.id).await?;
        let row = found.ok_or(Error::NoAgentRecord(params.id))?;
        if row.owner != owner.as_str() {
            return Err(Error::NotOwner(row.id));
        }
        agents::remove(&mut tx, &row.id, now).await?;
        self.outboxes.webhooks.remove_destination(&mut tx, &row.id).await?;
        let in_directory = row.manifest.is_some() && touch_document(&mut tx, &row.aid).await?;
        self.store.commit(tx).await?;

        if in_directory {
            self.tell_readers();
        }
        Ok(DeletedAgentRecord { id: row.id, deleted_at: iso(now) })
    }

    /// Removes the agent of an AID that was revoked: nobody can prove to be it again. Returns whether there was one.
    pub(crate) async fn remove_registered(&self, aid: &str) -> Result<bool, Error> {
        // Most of them have none: only reading is no write.
        if self.store.agent(aid).await?.is_none() {
            return Ok(false);
        }
        let mut tx = self.store.begin().await?;
        let Some(row) = agents::lock(&mut tx, aid).await? else { return Ok(false) };
        agents::remove(&mut tx, &row.id, self.clock.now_ms()).await?;
        self.outboxes.webhooks.remove_destination(&mut tx, &row.id).await?;
        self.store.commit(tx).await?;
        tracing::info!(aid, "the agent was revoked, and what was registered about it is removed");
        Ok(true)
    }
}
