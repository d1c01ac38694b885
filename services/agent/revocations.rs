//! Agents that were revoked lose their documents, and what was registered about them: nobody can prove to be such an agent again, and its name is never
//! registered again.
//!
//! A revocation is published, which only wakes the task here. What is removed is read from `ca`, from the time on that is
//! remembered in the store, so one that was published while this process was down is found, too.

use super::AgentService;
use super::store::{AgentMdWrite, Condition};
use kernel::{Backoff, Bus, Caller, RpcError};
use proto_schemas::requests::ca;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

const EVERY: Duration = Duration::from_secs(60);
const FIRST_WAIT: Duration = Duration::from_secs(1);
const PAGE: i64 = 500;
/// So far back it looks each time: a revocation is stored a moment after the time it has, clocks differ, and a document that
/// was being published during the revocation is stored after it.
const OVERLAP_SECONDS: i64 = 600;

/// Notified when somebody was revoked.
pub(super) fn listen(bus: &Bus) -> Arc<Notify> {
    let revoked = Arc::new(Notify::new());
    let notified = revoked.clone();
    bus.listen(move |event| {
        if event.as_signal::<ca::CertRevoked>().is_some() {
            notified.notify_one();
        }
    });
    revoked
}

impl AgentService {
    /// Runs until the server stops.
    pub(super) async fn follow_revocations(&self) {
        let mut backoff = Backoff::new(FIRST_WAIT, EVERY);
        loop {
            if let Err(error) = self.remove_revoked().await {
                tracing::info!("documents of revoked agents are removed later: {error}");
                backoff.wait().await;
                continue;
            }
            backoff.reset();
            tokio::select! {
                () = self.revoked.notified() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    /// Removes the documents of agents that were revoked since the last time. Returns how many it removed.
    pub(super) async fn remove_revoked(&self) -> Result<usize, RpcError> {
        let (mut since, mut after_aid, mut removed) = (self.store.revoked_since().await?, None, 0);
        let done_before = self.clock.now_seconds() - OVERLAP_SECONDS;
        loop {
            let wanted = ca::RevokedAgents { since, after_aid: after_aid.take(), limit: Some(PAGE) };
            let page = self.mesh.ask(Caller::service("agent"), &wanted).await?;
            for agent in &page.agents {
                removed += usize::from(self.remove_document(&agent.aid).await?);
                self.remove_registered(&agent.aid).await?;
            }
            let Some(last) = page.agents.last() else { return Ok(removed) };
            if !page.has_more {
                self.store.set_revoked_since(done_before).await?;
                return Ok(removed);
            }
            self.store.set_revoked_since(last.revoked_at.min(done_before)).await?;
            (since, after_aid) = (last.revoked_at, Some(last.aid.clone()));
        }
    }

    async fn remove_document(&self, aid: &str) -> Result<bool, RpcError> {
        // Most of them are done already: only reading is no write.
        if self.store.get(aid).await?.is_none() {
            return Ok(false);
        }
        let outcome = self.store.delete(aid, self.clock.now_ms(), &Condition::Always).await?;
        if outcome != AgentMdWrite::Written {
            return Ok(false);
        }
        tracing::info!(aid, "the agent was revoked, and its agent.md is removed");
        self.tell_readers();
        Ok(true)
    }
}
