//! Group commit: writes that arrive while a commit is running share the next one.
//!
//! There is no timer. The running commit is the timer: whatever has queued meanwhile is drained, committed in one
//! transaction, and each caller is answered only after its own row is durable.

use super::{RpcError, Tally, trace};
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// The most items in one transaction.
const MOST: usize = 256;

#[derive(Debug, thiserror::Error, Clone)]
pub enum BatchError {
    #[error("the store is behind: {0} bytes already wait to be written")]
    Busy(usize),
    #[error("the commit failed: {0}")]
    Failed(Arc<sqlx::Error>),
    #[error("the store is closing")]
    Closed,
}

impl From<BatchError> for RpcError {
    fn from(error: BatchError) -> RpcError {
        match error {
            BatchError::Failed(_) => RpcError::store(error),
            BatchError::Busy(_) => {
                RpcError::unavailable("too much waits to be stored right now, nothing was changed", error)
            }
            BatchError::Closed => {
                RpcError::unavailable("the service is stopping, nothing was changed", error)
            }
        }
    }
}

struct BatchItem<T, R> {
    item: T,
    answer: oneshot::Sender<Result<R, BatchError>>,
    _bytes: OwnedSemaphorePermit,
}

/// A queue in front of one committing task, bounded in bytes.
pub struct Batch<T, R> {
    queue: mpsc::UnboundedSender<BatchItem<T, R>>,
    bytes: Arc<Semaphore>,
    limit: usize,
    tally: Arc<Tally>,
}

impl<T: Send + 'static, R: Send + 'static> Batch<T, R> {
    /// `commit` writes all items in one transaction and returns an outcome for each, in order. If it fails, none of them is
    /// stored and every caller gets the error.
    pub fn start<C, Fut>(
        tracker: &TaskTracker,
        tally: Arc<Tally>,
        limit_bytes: usize,
        mut commit: C,
    ) -> Batch<T, R>
    where
        C: FnMut(Vec<T>) -> Fut + Send + 'static,
        Fut: Future<Output = sqlx::Result<Vec<R>>> + Send,
    {
        Batch::start_with(tracker, tally, limit_bytes, (), move |(), items| {
            let committed = commit(items);
            async move { ((), committed.await) }
        })
    }

    /// The same for a `commit` that has a state of its own: it gets it and returns it.
    pub fn start_with<S, C, Fut>(
        tracker: &TaskTracker,
        tally: Arc<Tally>,
        limit_bytes: usize,
        state: S,
        mut commit: C,
    ) -> Batch<T, R>
    where
        S: Send + 'static,
        C: FnMut(S, Vec<T>) -> Fut + Send + 'static,
        Fut: Future<Output = (S, sqlx::Result<Vec<R>>)> + Send,
    {
        // The channel has no bound of its own: the semaphore is its bound, in bytes rather than in items.
        let (queue, mut waiting) = mpsc::unbounded_channel::<BatchItem<T, R>>();
        let bytes = Arc::new(Semaphore::new(limit_bytes));
        let (free, counted) = (bytes.clone(), tally.clone());
        tally.add_queue(move || limit_bytes - free.available_permits());
        tracker.spawn(async move {
            let (mut state, mut group) = (state, Vec::new());
            while waiting.recv_many(&mut group, MOST).await > 0 {
                let (items, answers): (Vec<_>, Vec<_>) =
                    group.drain(..).map(|queued| (queued.item, (queued.answer, queued._bytes))).unzip();
                let (began, rows) = (Instant::now(), items.len());
                let outcome;
                (state, outcome) = commit(state, items).await;
                counted.commit(began.elapsed(), rows, outcome.as_ref().map_or(0, |_| rows));
                match outcome {
                    Ok(outcomes) => {
                        for ((answer, _), outcome) in answers.into_iter().zip(outcomes) {
                            // The row of a caller that went away is stored all the same.
                            let _ = answer.send(Ok(outcome));
                        }
                    }
                    Err(error) => {
                        let error = Arc::new(error);
                        for (answer, _) in answers {
                            let _ = answer.send(Err(BatchError::Failed(error.clone())));
                        }
                    }
                }
            }
        });
        Batch { queue, bytes, limit: limit_bytes, tally }
    }

    /// Waits until the item is durable. `bytes` is what it weighs in the queue.
    pub async fn submit(&self, item: T, bytes: usize) -> Result<R, BatchError> {
        let _step = trace::step("store", "commit");
        let weight = u32::try_from(bytes.clamp(1, self.limit)).unwrap_or(u32::MAX);
        let Ok(permit) = self.bytes.clone().try_acquire_many_owned(weight) else {
            self.tally.refuse();
            return Err(BatchError::Busy(self.limit - self.bytes.available_permits()));
        };
        let (answer, outcome) = oneshot::channel();
        let item = BatchItem { item, answer, _bytes: permit };
        self.queue.send(item).map_err(|_| BatchError::Closed)?;
        outcome.await.unwrap_or(Err(BatchError::Closed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreStats;
    use parking_lot::Mutex;
    use tokio::sync::Notify;

    fn commits(stats: &StoreStats) -> u64 {
        stats.commits.iter().map(|(_, count)| count).sum()
    }

    #[tokio::test]
    async fn what_arrives_during_a_commit_shares_the_next_one() {
        let (sizes, gate, tally) =
            (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()), Arc::<Tally>::default());
        let (seen, open) = (sizes.clone(), gate.clone());
        let batch =
            Arc::new(Batch::start(&TaskTracker::new(), tally.clone(), 1000, move |items: Vec<u32>| {
                let (seen, open) = (seen.clone(), open.clone());
                async move {
                    seen.lock().push(items.len());
                    open.notified().await;
                    Ok(items.into_iter().map(|item| item * 2).collect())
                }
            }));
        let mut calls = tokio::task::JoinSet::new();
        for item in 0..10 {
            let batch = batch.clone();
            calls.spawn(async move { (item, batch.submit(item, 1).await.unwrap()) });
            if item == 0 {
                while sizes.lock().is_empty() {
                    tokio::task::yield_now().await;
                }
            }
        }
        while batch.bytes.available_permits() > 990 {
            tokio::task::yield_now().await;
        }
        assert_eq!(tally.stats().queue_bytes, 10, "those that wait and the one under way");
        gate.notify_one();
        while sizes.lock().len() < 2 {
            tokio::task::yield_now().await;
        }
        gate.notify_one();
        while let Some(done) = calls.join_next().await {
            let (item, outcome) = done.unwrap();
            assert_eq!(outcome, item * 2);
        }
        assert_eq!(*sizes.lock(), [1, 9]);
        let stats = tally.stats();
        assert_eq!((commits(&stats), stats.rows, stats.failures, stats.busy), (2, 10, 0, 0));
        while tally.stats().queue_bytes > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn every_caller_gets_the_error_of_a_failed_commit_and_the_next_one_works() {
        let (mut first, tally) = (true, Arc::<Tally>::default());
        let batch = Batch::start(&TaskTracker::new(), tally.clone(), 1000, move |items: Vec<u32>| {
            let fails = std::mem::take(&mut first);
            async move { if fails { Err(sqlx::Error::PoolTimedOut) } else { Ok(items) } }
        });
        assert!(matches!(batch.submit(1, 1).await, Err(BatchError::Failed(_))));
        assert_eq!(batch.submit(2, 1).await.unwrap(), 2);
        let stats = tally.stats();
        assert_eq!((commits(&stats), stats.rows, stats.failures, stats.busy), (2, 1, 1, 0));
    }

    #[tokio::test]
    async fn a_full_queue_refuses_more() {
        let tally = Arc::<Tally>::default();
        let never = |_| std::future::pending::<sqlx::Result<Vec<u32>>>();
        let batch = Arc::new(Batch::<u32, u32>::start(&TaskTracker::new(), tally.clone(), 10, never));
        let held = batch.clone();
        let waiting = tokio::task::JoinSet::from_iter([async move { held.submit(1, 10).await }]);
        while batch.bytes.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(matches!(batch.submit(2, 1).await, Err(BatchError::Busy(10))));
        let stats = tally.stats();
        assert_eq!((stats.busy, stats.queue_bytes, commits(&stats)), (1, 10, 0));
        drop(waiting);
    }
}
