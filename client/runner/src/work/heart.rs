//! Renews the lease, a third of its length after the last time.

use crate::manager::{CallRetry, ManagerApi, RunNews, RunnerLease, WorkSignal};
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// The one that keeps the lease.
pub(super) struct LeaseHeart {
    pub api: ManagerApi,
    pub lease: RunnerLease,
    pub signals: mpsc::Sender<WorkSignal>,
    pub retry: CallRetry,
    /// Somebody wants to know now what has become of the run.
    pub at_once: Arc<Notify>,
}

impl LeaseHeart {
    /// Until nobody listens any more, or the lease is over.
    pub async fn run(mut self) {
        let heartbeat = self.lease.heartbeat();
        loop {
            // In time or not: both mean that it is time.
            let _ = timeout(self.lease.length / 3, self.at_once.notified()).await;
            let api = &mut self.api;
            let signal = match self.retry.call(async || api.heartbeat(&heartbeat).await).await {
                Ok(renewed) => WorkSignal::Renewed {
                    news: RunNews { cancel: renewed.command_ids, answers: renewed.approvals },
                },
                Err(error) => WorkSignal::of_error(error),
            };
            let is_over = !matches!(signal, WorkSignal::Renewed { .. });
            if self.signals.send(signal).await.is_err() || is_over {
                return;
            }
        }
    }
}
