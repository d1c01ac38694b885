//! `agent.delete`: the owner removes an agent, and with it every relation with it ends.

use crate::callers::calling_aid;
use crate::store::agents::{self, AgentRow, WriteTx};
use crate::store::attempts::forget_attempts;
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
        self.remove_locked(tx, &row, now).await?;
        Ok(DeletedAgentRecord { id: row.id, deleted_at: iso(now) })
    }

    /// Removes the agent with this AID or id, if there is one: the AID of the agent or of its owner ended.
    pub(crate) async fn remove_registered(&self, id: &str) -> Result<(), Error> {
        // Most of them have none: only reading is no write.
        if self.store.agent(id).await?.is_none() {
            return Ok(());
        }
        let mut tx = self.store.begin().await?;
        let Some(row) = agents::lock(&mut tx, id).await? else { return Ok(()) };
        self.remove_locked(tx, &row, self.clock.now_ms()).await?;
        tracing::info!(aid = row.aid, "an AID ended, and what was registered about the agent is removed");
        Ok(())
    }

    /// Removes an agent that the transaction has locked, and has the directory read that it has no manifest.
    async fn remove_locked(&self, mut tx: WriteTx, row: &AgentRow, now: i64) -> Result<(), Error> {
        agents::remove(&mut tx, &row.id, now).await?;
        self.outboxes.webhooks.remove_destination(&mut tx, &row.id).await?;
        let in_directory = row.manifest.is_some() && touch_document(&mut tx, &row.aid).await?;
        forget_attempts(&mut tx, &row.aid).await?;
        if row.has_webhook_device() {
            self.outboxes.mark_device(&mut tx, &row.aid, &row.owner, now).await?;
        }
        self.store.commit(tx).await?;
        self.outboxes.wake();
        if in_directory {
            self.tell_readers();
        }
        Ok(())
    }
}
