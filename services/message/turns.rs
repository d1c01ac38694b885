//! Who comes first when something has to be looked up: the inboxes of a recipient, or whether a domain is waited for.
//!
//! Messages are begun in the order in which they came, and those for which everything is known reach the commit, or the
//! gateway, without waiting for anything. A look-up is something to wait for, and the answers to several need not come in
//! order; so one is made at a time, and whoever begins while others wait for theirs waits behind them.

use parking_lot::Mutex;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::{Mutex as FairMutex, OwnedMutexGuard};

pub(super) struct Turns<K: Hash + Eq + Clone>(Arc<Mutex<HashMap<K, Queue>>>);

#[derive(Default)]
struct Queue {
    gateway: Arc<FairMutex<()>>,
    /// Those who wait, and the one whose turn it is.
    people: usize,
}

/// It is our turn until this is dropped.
pub(super) struct Turn<K: Hash + Eq + Clone> {
    _place: Place<K>,
    _guard: OwnedMutexGuard<()>,
}

/// A place in the queue, given up even by those who stop waiting.
struct Place<K: Hash + Eq + Clone> {
    turns: Turns<K>,
    about: K,
}

impl<K: Hash + Eq + Clone> Default for Turns<K> {
    fn default() -> Turns<K> {
        Turns(Arc::default())
    }
}

impl<K: Hash + Eq + Clone> Turns<K> {
    pub fn are_taken<Q: Hash + Eq + ?Sized>(&self, about: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let queues = self.0.lock();
        !queues.is_empty() && queues.contains_key(about)
    }

    pub async fn take(&self, about: K) -> Turn<K> {
        let (gateway, place) = {
            let mut queues = self.0.lock();
            let queue = queues.entry(about.clone()).or_default();
            queue.people += 1;
            (queue.gateway.clone(), Place { turns: Turns(self.0.clone()), about })
        };
        // Fair: in the order of the calls.
        let guard = gateway.lock_owned().await;
        Turn { _place: place, _guard: guard }
    }
}

/// Whoever is next may begin as soon as this one has begun: it stands in its next queue then.
pub(super) async fn in_turn<F: Future, K: Hash + Eq + Clone>(work: F, turn: Option<Turn<K>>) -> F::Output {
    let mut work = pin!(work);
    if let Some(turn) = turn {
        let begun = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        drop(turn);
        if let Poll::Ready(done) = begun {
            return done;
        }
    }
    work.await
}

impl<K: Hash + Eq + Clone> Drop for Place<K> {
    fn drop(&mut self) {
        let mut queues = self.turns.0.lock();
        let Some(queue) = queues.get_mut(&self.about) else { return };
        queue.people -= 1;
        if queue.people == 0 {
            queues.remove(&self.about);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn turns_come_in_order_and_who_gives_up_holds_nobody_up() {
        let (turns, aid) = (Turns::default(), "alice");
        assert!(!turns.are_taken(aid));
        let first = turns.take(aid).await;
        let mut second = Box::pin(turns.take(aid));
        let mut third = Box::pin(turns.take(aid));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        drop(first);
        assert!((&mut third).now_or_never().is_none(), "the second is before it");
        drop(second);
        let third = third.await;
        assert!(turns.are_taken(aid));
        drop(third);
        assert!(!turns.are_taken(aid) && turns.0.lock().is_empty());
    }
}
