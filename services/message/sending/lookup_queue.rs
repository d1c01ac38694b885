//! The order of messages for which something has to be looked up first: the inboxes of a recipient, or whether messages to a
//! domain are queued.
//!
//! Messages are begun in the order in which they came, and those for which everything is cached reach the commit, or the
//! gateway, without waiting. The answers to several lookups need not come in order; so for each recipient one lookup is made
//! at a time, and a message that comes while others wait for theirs waits behind them.

use parking_lot::Mutex;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::{Mutex as FairMutex, OwnedMutexGuard};

pub(crate) struct LookupQueues<K: Hash + Eq + Clone>(Arc<Mutex<HashMap<K, LookupQueue>>>);

#[derive(Default)]
struct LookupQueue {
    mutex: Arc<FairMutex<()>>,
    /// Those who wait, and the one who has the lock.
    waiters: usize,
}

/// No other lookup about the same begins until this is dropped.
pub(crate) struct LookupGuard<K: Hash + Eq + Clone> {
    _waiter: Waiter<K>,
    _guard: OwnedMutexGuard<()>,
}

/// Counted until it is dropped, even if it stops waiting.
struct Waiter<K: Hash + Eq + Clone> {
    queues: LookupQueues<K>,
    about: K,
}

impl<K: Hash + Eq + Clone> Default for LookupQueues<K> {
    fn default() -> LookupQueues<K> {
        LookupQueues(Arc::default())
    }
}

impl<K: Hash + Eq + Clone> LookupQueues<K> {
    /// Whether a lookup about this is running or waiting.
    pub fn is_busy<Q: Hash + Eq + ?Sized>(&self, about: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let queues = self.0.lock();
        !queues.is_empty() && queues.contains_key(about)
    }

    pub async fn wait(&self, about: K) -> LookupGuard<K> {
        let (mutex, waiter) = {
            let mut queues = self.0.lock();
            let queue = queues.entry(about.clone()).or_default();
            queue.waiters += 1;
            (queue.mutex.clone(), Waiter { queues: LookupQueues(self.0.clone()), about })
        };
        // Fair: in the order of the calls.
        let guard = mutex.lock_owned().await;
        LookupGuard { _waiter: waiter, _guard: guard }
    }
}

/// Polls the work once, then lets the next lookup begin. After one poll the work is in the queue of its commit, or of its
/// peer, and nothing that begins later gets before it there.
pub(crate) async fn begin_then_release<F: Future, K: Hash + Eq + Clone>(
    work: F,
    guard: Option<LookupGuard<K>>,
) -> F::Output {
    let mut work = pin!(work);
    if let Some(guard) = guard {
        let begun = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        drop(guard);
        if let Poll::Ready(done) = begun {
            return done;
        }
    }
    work.await
}

impl<K: Hash + Eq + Clone> Drop for Waiter<K> {
    fn drop(&mut self) {
        let mut queues = self.queues.0.lock();
        let Some(queue) = queues.get_mut(&self.about) else { return };
        queue.waiters -= 1;
        if queue.waiters == 0 {
            queues.remove(&self.about);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn lookups_begin_in_order_and_one_that_is_dropped_delays_nobody() {
        let (lookups, aid) = (LookupQueues::default(), "alice");
        assert!(!lookups.is_busy(aid));
        let first = lookups.wait(aid).await;
        let mut second = Box::pin(lookups.wait(aid));
        let mut third = Box::pin(lookups.wait(aid));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        drop(first);
        assert!((&mut third).now_or_never().is_none(), "the second is before it");
        drop(second);
        let third = third.await;
        assert!(lookups.is_busy(aid));
        drop(third);
        assert!(!lookups.is_busy(aid) && lookups.0.lock().is_empty());
    }
}
