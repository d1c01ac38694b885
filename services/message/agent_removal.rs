//! What is removed when the AID of an agent ends: the messages that wait for it, its devices with their cursors, its keys, and what it
//! has in memory. Messages that it sent to others are theirs, until the retention.

use super::MessageService;
use super::store::ephemeral::shared_rows::RowList;
use super::store::ephemeral::{queue_messages, volatile};
use super::thought;
use kernel::{Aid, RemoveAgent, RpcError};

impl RemoveAgent for MessageService {
    async fn remove_agent(&self, aid: &Aid, _: i64) -> Result<(), RpcError> {
        let inboxes = self.inboxes.ids_of(aid).await?;
        if !inboxes.is_empty() {
            self.remove_inboxes(aid, &inboxes).await?;
        }
        self.remove_ephemeral(aid, &inboxes).await?;
        self.store.remove_rows_of(aid).await?;
        Ok(())
    }
}

impl MessageService {
    /// Messages first: what is left after a crash is found by the inboxes. Those that are stored while the inboxes are being removed
    /// are found by nobody, and leave with the retention if they are not removed here.
    async fn remove_inboxes(&self, aid: &Aid, inboxes: &[i64]) -> Result<(), RpcError> {
        if !self.store.is_indexed().await {
            let cause = anyhow::anyhow!("messages wait to be indexed for too long");
            return Err(RpcError::unavailable("the messages of an agent cannot be removed yet", cause));
        }
        self.store.remove_messages_of(inboxes).await?;
        self.inboxes.remove_all(aid).await?;
        self.store.remove_messages_of(inboxes).await?;
        tracing::info!(%aid, "the AID of the agent ended, and its inboxes are removed");
        Ok(())
    }

    /// Queue messages and messages with a ttl that wait for it, and its thoughts.
    async fn remove_ephemeral(&self, aid: &Aid, inboxes: &[i64]) -> sqlx::Result<()> {
        let Some(shared) = &self.shared else {
            self.queue_messages.remove_agent(aid);
            self.thoughts.remove_agent(aid);
            inboxes.iter().for_each(|inbox| self.volatile.remove_inbox(*inbox));
            return Ok(());
        };
        for kind in [queue_messages::LIST, thought::ROWS] {
            shared.remove_list(RowList { kind, key: aid.as_str() }).await?;
        }
        for inbox in inboxes {
            shared.remove_list(RowList { kind: volatile::LIST, key: &inbox.to_string() }).await?;
        }
        Ok(())
    }
}
