//! What is removed when the AID of an agent ends: its document, what is registered about it or by it, and what it granted as a user.
//!
//! Nobody can prove to be that agent again. What it owned could be changed by nobody, and what it granted is given by nobody.

use super::store::relations::{self, RelationsWanted};
use super::store::{AgentMdWrite, Condition};
use super::{AgentService, Error};
use crate::consent::notices::RelationStep;
use kernel::{Aid, RemoveAgent, RpcError};

/// How many of its agents are read at once. Each is removed in a transaction of its own.
const AGENTS: i64 = 100;

impl RemoveAgent for AgentService {
    async fn remove_agent(&self, aid: &Aid, _: i64) -> Result<(), RpcError> {
        let aid = aid.as_str();
        self.remove_document(aid).await?;
        self.remove_registered(aid).await?;
        self.remove_owned(aid).await?;
        self.remove_granted(aid).await?;
        Ok(())
    }
}

impl AgentService {
    async fn remove_document(&self, aid: &str) -> Result<(), Error> {
        // Most of them are done already: only reading is no write.
        if self.store.get(aid).await?.is_none() {
            return Ok(());
        }
        let outcome = self.store.delete(aid, self.clock.now_ms(), &Condition::Always).await?;
        if outcome == AgentMdWrite::Written {
            tracing::info!(aid, "the AID of the agent ended, and its agent.md is removed");
            self.tell_readers();
        }
        Ok(())
    }

    /// The agents that it registered for other AIDs.
    async fn remove_owned(&self, owner: &str) -> Result<(), Error> {
        loop {
            let agents = self.store.agents_of(owner, "", AGENTS).await?;
            if agents.is_empty() {
                return Ok(());
            }
            for agent in agents {
                self.remove_registered(&agent.id).await?;
            }
        }
    }

    /// Its relations with agents of others end as if it had revoked them: those are told. Then nothing of them is shown.
    async fn remove_granted(&self, user: &str) -> Result<(), Error> {
        let mut after = String::new();
        loop {
            let wanted = RelationsWanted {
                user: Some(user),
                agent_id: None,
                status: None,
                reauth_required: None,
                after: &after,
                limit: relations::PAGE,
            };
            let page = self.store.relations(&wanted).await?;
            let Some(last) = page.last() else { break };
            after = last.id.clone();
            for relation in page.into_iter().filter(|relation| relation.status != "revoked") {
                match self.take_step(relation, RelationStep::Revoked).await {
                    // Its agent was removed meanwhile, and the relation with it.
                    Ok(_) | Err(Error::NoRelation(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        while self.store.remove_relations_of(user).await? == relations::PAGE.unsigned_abs() {}
        Ok(())
    }
}
