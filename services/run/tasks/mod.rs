//! What the service does without being asked.

use crate::RunService;
use crate::model::call::{CallAccess, RunOperation};
use futures_util::future::join_all;
use kernel::RpcError;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::sleep;

pub(super) type RunWork = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How often the server looks for what is over.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
const SWEPT_AT_ONCE: i64 = 256;
const MAINTAIN_EVERY: Duration = Duration::from_secs(60);
const REMOVED_AT_ONCE: i64 = 50;
const DAY_MS: i64 = 86_400_000;

impl RunService {
    pub(crate) async fn sweep_due(&self) {
        let mut last = self.clock.now_ms();
        loop {
            sleep(SWEEP_EVERY).await;
            let now = self.clock.now_ms();
            if now + 1000 < last
                && let Err(error) = self.store.look_at_all(now).await
            {
                tracing::warn!("the clock was set back, and runs could not be looked at: {error}");
                continue;
            }
            last = now;
            if let Err(error) = self.sweep(now).await {
                RpcError::from(error).log("run.sweep");
            }
        }
    }

    /// Ends what is over at this time; how many runs were looked at.
    pub(crate) async fn sweep(&self, now: i64) -> sqlx::Result<usize> {
        let due = self.store.due_runs(now, SWEPT_AT_ONCE).await?;
        let calls = due.iter().map(|run| self.submit(run, CallAccess::System, RunOperation::Sweep));
        for (run, swept) in due.iter().zip(join_all(calls).await) {
            match swept {
                Ok(_) => {
                    self.metrics.swept.inc();
                }
                Err(error) => tracing::warn!("{run} could not be looked at: {error}"),
            }
        }
        Ok(due.len())
    }

    pub(crate) async fn maintain(&self) {
        loop {
            sleep(MAINTAIN_EVERY).await;
            if let Err(error) = self.settle_validations().await {
                RpcError::from(error).log("profile.validate");
            }
            if let Err(error) = self.remove_ended(self.clock.now_ms()).await {
                RpcError::from(error).log("run.maintenance");
            }
            if let Err(error) = self.remove_old_conversations(self.clock.now_ms()).await {
                RpcError::from(error).log("agui.maintenance");
            }
            if let Err(error) = self.store.checkpoint().await {
                tracing::debug!("the journal could not be moved: {error}");
            }
        }
    }

    /// Removes runs whose retention is over, however many there are; how many. What another process is about to remove is left to it.
    pub(crate) async fn remove_ended(&self, now: i64) -> sqlx::Result<usize> {
        let before = now - i64::from(self.settings.retention_days) * DAY_MS;
        let mut all = 0;
        while !self.stop.is_cancelled() {
            let ended = self.store.ended_runs(before, REMOVED_AT_ONCE).await?;
            let mut removed = 0;
            for run in &ended {
                if self.store.remove_run(run).await? {
                    self.metrics.removed.inc();
                    removed += 1;
                }
            }
            all += removed;
            let is_last = i64::try_from(ended.len()).is_ok_and(|found| found < REMOVED_AT_ONCE);
            if is_last || removed == 0 {
                break;
            }
            // Others have their turn between two pages.
            yield_now().await;
        }
        Ok(all)
    }

    /// Storage of sessions that have expired or were evicted.
    pub(crate) async fn collect_storage_always(&self) {
        loop {
            sleep(Duration::from_millis(self.settings.session_gc_interval_ms)).await;
            let collected = async {
                self.collect_expired().await?;
                self.remove_evicted().await?;
                self.remove_over().await
            };
            if let Err(error) = self.remove_over_runners().await {
                tracing::warn!("what runners have left could not be removed: {error}");
            }
            if let Err(error) = collected.await {
                RpcError::from(error).log("session.collect_storage");
            }
        }
    }
}
