//! `session.collect_storage`, and the removal of what nobody needs: the storage of sessions that have expired, and of those that were
//! evicted while a runner worked in their folders; and after their retention the sessions themselves.

use crate::RunService;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::session::{CollectStorage, CollectedStorage};
use std::sync::Arc;

/// How many sessions are looked at in one step, and how many steps a call has. What is left waits for the next call.
const STEP: i64 = 100;
const STEPS: usize = 50;
const DAY_MS: i64 = 86_400_000;

impl RunService {
    pub(crate) async fn session_collect_storage(
        self: Arc<Self>,
        _: Caller,
        _: CollectStorage,
    ) -> Result<CollectedStorage, Error> {
        let evicted = self.collect_expired().await?;
        self.remove_evicted().await?;
        self.remove_over().await?;
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

    /// Removes the folders of evicted sessions in which no runner works any more. Each call goes on where the one before ended, so that
    /// folders that cannot be removed, however many, do not keep others from being removed.
    pub(crate) async fn remove_evicted(&self) -> Result<(), Error> {
        for _ in 0..STEPS {
            let evicted = self.store.evicted_sessions(&self.storage.removed_up_to(), STEP).await?;
            for session in &evicted {
                self.try_to_remove(session).await;
            }
            let is_last = i64::try_from(evicted.len()).is_ok_and(|found| found < STEP);
            self.storage.go_on_after(evicted.last().filter(|_| !is_last).map_or("", String::as_str));
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Removes the folder of an evicted session, unless a runner has the lease of its run. What fails is tried again with the next call.
    pub(super) async fn try_to_remove(&self, session_id: &str) {
        if let Err(error) = self.remove_unless_used(session_id).await {
            self.storage.log_failure(session_id, "removed", &error);
        }
    }

    async fn remove_unless_used(&self, session_id: &str) -> anyhow::Result<()> {
        let lease = self.store.lease_of_session(session_id).await?;
        if lease.is_some_and(|lease| lease.is_live(self.clock.now_ms(), self.started_at())) {
            return Ok(());
        }
        self.storage.remove(session_id).await?;
        Ok(self.store.storage_removed(session_id).await?)
    }

    /// Removes sessions after the retention of what ends, which begins with their eviction; how many.
    pub(crate) async fn remove_over(&self) -> Result<usize, Error> {
        let before = self.clock.now_ms() - i64::from(self.settings.retention_days) * DAY_MS;
        let mut removed = 0;
        for _ in 0..STEPS {
            let over = self.store.sessions_over(before, STEP).await?;
            for session in &over {
                removed += usize::from(self.store.remove_session(session, before).await?);
            }
            if i64::try_from(over.len()).is_ok_and(|found| found < STEP) {
                break;
            }
        }
        Ok(removed)
    }
}
