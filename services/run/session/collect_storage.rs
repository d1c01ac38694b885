//! `session.collect_storage`, and the removal of storage that nobody needs: of sessions that have expired, and of those that were
//! evicted while a runner worked in their folders.

use crate::RunService;
use crate::error::Error;
use kernel::{Caller, RpcError};
use proto_schemas::requests::session::{CollectStorage, CollectedStorage};
use std::sync::Arc;

/// How many sessions are looked at in one step, and how many steps a call has. What is left waits for the next call.
const STEP: i64 = 100;
const STEPS: usize = 50;

impl RunService {
    pub(crate) async fn session_collect_storage(
        self: Arc<Self>,
        _: Caller,
        _: CollectStorage,
    ) -> Result<CollectedStorage, Error> {
        let evicted = self.collect_expired().await?;
        self.remove_evicted().await?;
        Ok(CollectedStorage { evicted })
    }

    /// Evicts sessions that have expired and have no active run, and gives how many.
    pub(crate) async fn collect_expired(&self) -> Result<i64, Error> {
        let (mut evicted, now) = (0, self.clock.now_ms());
        for _ in 0..STEPS {
            let expired = self.store.expired_sessions(now, STEP).await?;
            if expired.is_empty() {
                break;
            }
            for session in expired {
                // One that got a run meanwhile is not evicted, and is not found again.
                if self.store.evict_expired(&session, now).await? {
                    evicted += 1;
                    self.try_to_remove(&session).await;
                }
            }
        }
        Ok(evicted)
    }

    /// Removes the folders of evicted sessions in which no runner works any more.
    pub(crate) async fn remove_evicted(&self) -> Result<(), Error> {
        let mut after = String::new();
        for _ in 0..STEPS {
            let evicted = self.store.evicted_sessions(&after, STEP).await?;
            let Some(last) = evicted.last() else { break };
            after.clone_from(last);
            for session in &evicted {
                self.try_to_remove(session).await;
            }
        }
        Ok(())
    }

    /// A folder that cannot be removed must not keep others from being removed. It is tried again with the next call.
    async fn try_to_remove(&self, session_id: &str) {
        if let Err(error) = self.remove_unless_used(session_id).await {
            let cause = RpcError::from(error);
            cause.log("session.collect_storage");
            tracing::warn!(session = session_id, "the folder of an evicted session could not be removed");
        }
    }

    /// Removes the folder of an evicted session, unless a runner has the lease of its run.
    pub(crate) async fn remove_unless_used(&self, session_id: &str) -> Result<(), Error> {
        let lease = self.store.lease_of_session(session_id).await?;
        if lease.is_some_and(|lease| lease.is_live(self.clock.now_ms(), self.started_at)) {
            return Ok(());
        }
        self.storage.remove(session_id).await.map_err(RpcError::internal)?;
        Ok(self.store.storage_removed(session_id).await?)
    }
}
