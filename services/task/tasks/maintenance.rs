//! Removes what is too old, in steps, and keeps SQLite's journal short.

use crate::TaskService;
use crate::model::error::Error;
use std::time::Duration;

/// After which a task of another domain is forgotten that nothing was heard of, though it has not ended.
const STUB_MS: i64 = 120 * 86_400_000;
const EVERY: Duration = Duration::from_secs(1);
/// Counted in the above.
const REMOVE_EVERY: u32 = 10;
const REMOVE_TASKS_EVERY: u32 = 60;

impl TaskService {
    /// Runs until the server stops.
    pub(crate) async fn maintain(&self) {
        let mut tick = 0_u32;
        loop {
            if let Err(error) = self.store.checkpoint().await {
                tracing::warn!("the journal could not be checkpointed, will retry: {error}");
            }
            if tick.is_multiple_of(REMOVE_EVERY)
                && let Err(error) = self.remove_expired().await
            {
                tracing::warn!("old answers and subscriptions could not be removed, will retry: {error}");
            }
            if tick.is_multiple_of(REMOVE_TASKS_EVERY)
                && let Err(error) = self.remove_ended().await
            {
                tracing::warn!("old tasks could not be removed, will retry: {error}");
            }
            tick = tick.wrapping_add(1);
            tokio::time::sleep(EVERY).await;
        }
    }

    pub(crate) async fn remove_expired(&self) -> Result<(), Error> {
        let now = self.clock.now_ms();
        self.store.remove_answers(now).await?;
        self.store.remove_subscriptions(now).await?;
        Ok(())
    }

    pub(crate) async fn remove_ended(&self) -> Result<u64, Error> {
        let now = self.clock.now_ms();
        let removed = self.store.remove_ended(now - self.retention_ms).await?;
        let told_before = (now - self.retention_ms, now - STUB_MS);
        self.store.remove_places(now - self.retention_ms).await?;
        self.store.remove_stubs(told_before.0.max(told_before.1), told_before.1).await?;
        self.metrics.open.set(self.store.open_tasks().await?);
        self.metrics.relays_waiting.set(self.store.outbox.count().await?);
        Ok(removed)
    }
}
