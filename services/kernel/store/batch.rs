//! Group commit: writes that arrive while a commit is running share the next one.
//!
//! There is no timer. The running commit is the timer: whatever has queued meanwhile is drained, committed in one
//! transaction, and each caller is answered only after its own row is durable.
//!
//! Where the store can do several commits at once, a few may run: while one waits for its disk, the next is on its way. Two
//! commits that run at once have no key in common, so what is for one key still happens in the order in which it was submitted.

use super::is_disk_full;
use crate::{RpcError, Tally, trace};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::collections::{HashSet, VecDeque};
use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// The most items in one transaction.
const MOST: usize = 256;
/// How many waiting items are looked through for those of a commit.
const LOOK_AHEAD: usize = 1024;

/// `E` is what a failed commit gives.
#[derive(Debug, thiserror::Error, Clone)]
pub enum BatchError<E: Display = Arc<sqlx::Error>> {
    #[error("the store is overloaded: {0} bytes are waiting to be written")]
    Busy(usize),
    #[error("the commit failed: {0}")]
    Failed(E),
    #[error("the store is closing")]
    Closed,
}

impl From<BatchError> for RpcError {
    fn from(error: BatchError) -> RpcError {
        match error {
            BatchError::Failed(ref cause) if is_disk_full(cause) => RpcError::no_space().caused_by(error),
            BatchError::Failed(_) => RpcError::store(error),
            BatchError::Busy(_) => {
                RpcError::unavailable("the store is overloaded; nothing was changed", error)
            }
            BatchError::Closed => {
                RpcError::unavailable("the service is stopping; nothing was changed", error)
            }
        }
    }
}

/// A queue in front of one committing task, bounded in bytes.
pub struct Batch<T, R, E: Display = Arc<sqlx::Error>> {
    queue: mpsc::UnboundedSender<BatchItem<T, R, E>>,
    bytes: Arc<Semaphore>,
    limit: usize,
    tally: Arc<Tally>,
}

struct BatchItem<T, R, E: Display> {
    item: T,
    answer: BatchAnswer<R, E>,
}

/// Where the outcome of an item goes. Its bytes count until then.
struct BatchAnswer<R, E: Display> {
    to: oneshot::Sender<Result<R, BatchError<E>>>,
    _bytes: OwnedSemaphorePermit,
}

impl<T: Send + 'static, R: Send + 'static> Batch<T, R> {
    /// `commit` writes all items in one transaction and returns an outcome for each, in order. If it fails, none of them is
    /// stored and every caller gets the error. One commit runs at a time.
    pub fn start<C, Fut>(
        tracker: &TaskTracker,
        tally: Arc<Tally>,
        limit_bytes: usize,
        mut commit: C,
    ) -> Batch<T, R>
    where
        C: FnMut(Vec<T>) -> Fut + Send + 'static,
        Fut: Future<Output = sqlx::Result<Vec<R>>> + Send + 'static,
    {
        Batch::start_with(tracker, tally, limit_bytes, (), move |(), items| {
            let committed = commit(items);
            async move { ((), committed.await) }
        })
    }

    /// As [`Batch::start`], for a `commit` that has a state: it gets it and returns it.
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
        Fut: Future<Output = (S, sqlx::Result<Vec<R>>)> + Send + 'static,
    {
        let no_keys = |_: &T| -> Vec<()> { Vec::new() };
        Batch::start_keyed(tracker, tally, limit_bytes, vec![state], no_keys, move |state, items| {
            let (count, committed) = (items.len(), commit(state, items));
            async move {
                let (state, outcome) = committed.await;
                (state, each(count, outcome))
            }
        })
    }
}

/// The outcome of one transaction as that of each of its items.
fn each<R>(count: usize, outcome: sqlx::Result<Vec<R>>) -> Vec<Result<R, Arc<sqlx::Error>>> {
    match outcome {
        Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
        Err(error) => {
            let error = Arc::new(error);
            (0..count).map(|_| Err(error.clone())).collect()
        }
    }
}

impl<T, R, E> Batch<T, R, E>
where
    T: Send + 'static,
    R: Send + 'static,
    E: Display + Send + 'static,
{
    /// As many commits at once as there are `states`; each has one of them and returns it. `keys` are those of an item: no two
    /// commits at once have one in common. `commit` gives the outcome of each item, in order.
    pub fn start_keyed<S, K, G, C, Fut>(
        tracker: &TaskTracker,
        tally: Arc<Tally>,
        limit_bytes: usize,
        states: Vec<S>,
        keys: G,
        commit: C,
    ) -> Batch<T, R, E>
    where
        S: Send + 'static,
        K: Hash + Eq + Clone + Send + 'static,
        G: Fn(&T) -> Vec<K> + Send + 'static,
        C: FnMut(S, Vec<T>) -> Fut + Send + 'static,
        Fut: Future<Output = (S, Vec<Result<R, E>>)> + Send + 'static,
    {
        // The channel has no bound of its own: the semaphore is its bound, in bytes rather than in items.
        let (queue, submitted) = mpsc::unbounded_channel();
        let bytes = Arc::new(Semaphore::new(limit_bytes));
        let free = bytes.clone();
        tally.add_queue(move || limit_bytes - free.available_permits());
        let waiting =
            WaitingItems { submitted, open: true, keys, items: VecDeque::new(), busy: HashSet::new() };
        tracker.spawn(run(waiting, tally.clone(), states, commit));
        Batch { queue, bytes, limit: limit_bytes, tally }
    }

    /// Waits until the item is durable. `bytes` is what it weighs in the queue.
    pub async fn submit(&self, item: T, bytes: usize) -> Result<R, BatchError<E>> {
        let _step = trace::step("store", "commit");
        let weight = u32::try_from(bytes.clamp(1, self.limit)).unwrap_or(u32::MAX);
        let Ok(permit) = self.bytes.clone().try_acquire_many_owned(weight) else {
            self.tally.refuse();
            return Err(BatchError::Busy(self.limit - self.bytes.available_permits()));
        };
        let (to, outcome) = oneshot::channel();
        let answer = BatchAnswer { to, _bytes: permit };
        self.queue.send(BatchItem { item, answer }).map_err(|_| BatchError::Closed)?;
        outcome.await.unwrap_or(Err(BatchError::Closed))
    }
}

/// Commits until nobody can submit any more and everything is answered.
async fn run<T, R, E, S, K, G, C, Fut>(
    mut waiting: WaitingItems<T, R, E, K, G>,
    tally: Arc<Tally>,
    mut idle: Vec<S>,
    mut commit: C,
) where
    E: Display,
    K: Hash + Eq + Clone,
    G: Fn(&T) -> Vec<K>,
    C: FnMut(S, Vec<T>) -> Fut,
    Fut: Future<Output = (S, Vec<Result<R, E>>)>,
{
    let mut running = FuturesUnordered::new();
    loop {
        waiting.drain();
        while let Some(state) = idle.pop() {
            let Some(group) = waiting.pick() else {
                idle.push(state);
                break;
            };
            let BatchGroup { items, answers, keys } = group;
            running.push(finish(&tally, commit(state, items), answers, keys));
        }
        // Without a commit no key is busy, so nothing waits either.
        if running.is_empty() && !waiting.open {
            return;
        }
        tokio::select! {
            Some((state, keys)) = running.next() => {
                waiting.free(&keys);
                idle.push(state);
            }
            // While every commit is under way nothing could be begun: what is submitted wakes nobody then.
            () = waiting.receive(), if waiting.open && !idle.is_empty() => {}
        }
    }
}

/// What was submitted and is in no commit yet, in the order in which it came.
struct WaitingItems<T, R, E: Display, K, G> {
    submitted: UnboundedReceiver<BatchItem<T, R, E>>,
    /// Whether more may be submitted.
    open: bool,
    keys: G,
    items: VecDeque<(BatchItem<T, R, E>, Vec<K>)>,
    /// The keys of the commits that run.
    busy: HashSet<K>,
}

/// The items of one commit.
struct BatchGroup<T, R, E: Display, K> {
    items: Vec<T>,
    answers: Vec<BatchAnswer<R, E>>,
    keys: Vec<K>,
}

impl<T, R, E, K, G> WaitingItems<T, R, E, K, G>
where
    E: Display,
    K: Hash + Eq + Clone,
    G: Fn(&T) -> Vec<K>,
{
    /// Takes what was submitted, as far as a commit looks ahead.
    fn drain(&mut self) {
        while self.open && self.items.len() < LOOK_AHEAD {
            match self.submitted.try_recv() {
                Ok(item) => self.add(item),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => self.open = false,
            }
        }
    }

    /// Waits for the next item. If it is dropped before, nothing is lost.
    async fn receive(&mut self) {
        match self.submitted.recv().await {
            Some(item) => self.add(item),
            None => self.open = false,
        }
    }

    fn add(&mut self, item: BatchItem<T, R, E>) {
        let keys = (self.keys)(&item.item);
        self.items.push_back((item, keys));
    }

    /// The next items whose keys no running commit has, in their order. The keys of an item that has to wait are closed to those
    /// behind it, too: otherwise a later one would be committed before it, and it could wait for ever.
    fn pick(&mut self) -> Option<BatchGroup<T, R, E, K>> {
        let mut group = BatchGroup { items: Vec::new(), answers: Vec::new(), keys: Vec::new() };
        let (mut closed, mut back) = (HashSet::new(), Vec::new());
        for _ in 0..LOOK_AHEAD {
            if group.items.len() == MOST {
                break;
            }
            let Some((item, keys)) = self.items.pop_front() else { break };
            if keys.iter().any(|key| self.busy.contains(key) || closed.contains(key)) {
                closed.extend(keys.iter().cloned());
                back.push((item, keys));
            } else {
                group.keys.extend(keys);
                group.items.push(item.item);
                group.answers.push(item.answer);
            }
        }
        for waits in back.into_iter().rev() {
            self.items.push_front(waits);
        }
        self.busy.extend(group.keys.iter().cloned());
        (!group.items.is_empty()).then_some(group)
    }

    /// A commit with these keys has ended.
    fn free(&mut self, keys: &[K]) {
        for key in keys {
            self.busy.remove(key);
        }
    }
}

/// Answers each caller when the commit has ended; gives its state and its keys, which are free again.
async fn finish<R, E: Display, S, K>(
    tally: &Tally,
    committing: impl Future<Output = (S, Vec<Result<R, E>>)>,
    answers: Vec<BatchAnswer<R, E>>,
    keys: Vec<K>,
) -> (S, Vec<K>) {
    let began = Instant::now();
    let (state, outcomes) = committing.await;
    let stored = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    tally.commit(began.elapsed(), answers.len(), stored);
    for (BatchAnswer { to, _bytes }, outcome) in answers.into_iter().zip(outcomes) {
        // The row of a caller that went away is stored all the same.
        let _ = to.send(outcome.map_err(BatchError::Failed));
    }
    (state, keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreStats;
    use futures_util::future::join_all;
    use futures_util::poll;
    use parking_lot::Mutex;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use testing::cases;
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

    /// An item with its place in the order of submission, and its keys.
    #[derive(Clone, Debug)]
    struct KeyedItem {
        place: usize,
        keys: Vec<u8>,
    }

    #[derive(Default)]
    struct CommitLog {
        running: Vec<Vec<u8>>,
        most_at_once: usize,
        shared: bool,
        places: HashMap<u8, Vec<usize>>,
    }

    impl CommitLog {
        fn begin(&mut self, items: &[KeyedItem]) -> Vec<u8> {
            let keys: Vec<u8> = items.iter().flat_map(|item| item.keys.iter().copied()).collect();
            self.shared |= keys.iter().any(|key| self.running.iter().flatten().any(|other| other == key));
            self.running.push(keys.clone());
            self.most_at_once = self.most_at_once.max(self.running.len());
            for item in items {
                for key in &item.keys {
                    self.places.entry(*key).or_default().push(item.place);
                }
            }
            keys
        }

        fn end(&mut self, keys: &[u8]) {
            let at = self.running.iter().position(|running| running == keys).unwrap();
            self.running.remove(at);
        }
    }

    type KeyedBatch = Batch<KeyedItem, usize, &'static str>;

    /// `wait` is what a commit does between its begin and its end. An item without a key fails.
    fn keyed_batch<Fut>(
        at_once: usize,
        log: &Arc<Mutex<CommitLog>>,
        mut wait: impl FnMut(&[KeyedItem]) -> Fut + Send + 'static,
    ) -> KeyedBatch
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (tally, log) = (Arc::<Tally>::default(), log.clone());
        let states = vec![(); at_once];
        let keys = |item: &KeyedItem| item.keys.clone();
        Batch::start_keyed(&TaskTracker::new(), tally, 10_000, states, keys, move |(), items| {
            let (log, waited) = (log.clone(), wait(&items));
            async move {
                let keys = log.lock().begin(&items);
                waited.await;
                log.lock().end(&keys);
                let outcome = |item: KeyedItem| match item.keys.is_empty() {
                    true => Err("no key"),
                    false => Ok(item.place),
                };
                ((), items.into_iter().map(outcome).collect())
            }
        })
    }

    #[tokio::test]
    async fn commits_with_other_keys_run_at_once_and_one_with_a_busy_key_waits() {
        let (log, gate) = (Arc::new(Mutex::new(CommitLog::default())), Arc::new(Notify::new()));
        let open = gate.clone();
        let batch = keyed_batch(2, &log, move |items| {
            let (blocks, open) = (items[0].place == 0, open.clone());
            async move {
                if blocks {
                    open.notified().await;
                }
            }
        });
        let submit = |place, keys: &[u8]| Box::pin(batch.submit(KeyedItem { place, keys: keys.to_vec() }, 1));
        let mut first = submit(0, &[1]);
        assert!(poll!(&mut first).is_pending());
        while log.lock().running.is_empty() {
            tokio::task::yield_now().await;
        }
        let (mut same, mut behind) = (submit(1, &[1, 2]), submit(2, &[2]));
        assert!(poll!(&mut same).is_pending() && poll!(&mut behind).is_pending());
        assert_eq!(submit(3, &[3]).await.unwrap(), 3, "it has nothing to do with the commit that runs");
        assert!(matches!(submit(4, &[]).await, Err(BatchError::Failed("no key"))), "the others are stored");
        assert!(poll!(&mut same).is_pending(), "its key is busy");
        assert!(poll!(&mut behind).is_pending(), "it comes after one that waits");
        gate.notify_one();
        assert_eq!((first.await.unwrap(), same.await.unwrap(), behind.await.unwrap()), (0, 1, 2));
        let log = log.lock();
        assert_eq!((log.most_at_once, log.shared), (2, false));
        assert_eq!(log.places[&2], [1, 2]);
    }

    fn some_items() -> impl Strategy<Value = Vec<(Vec<u8>, u8)>> {
        let keys = prop::collection::hash_set(0_u8..6, 0..3).prop_map(|keys| keys.into_iter().collect());
        prop::collection::vec((keys, 0_u8..4), 1..60)
    }

    proptest! {
        #![proptest_config(cases(200))]

        /// The items come one after the other, with pauses; the commits take different times.
        #[test]
        fn no_two_commits_at_once_share_a_key_and_each_key_keeps_its_order(at_once in 1_usize..5, items in some_items()) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let log = Arc::new(Mutex::new(CommitLog::default()));
            let answers = runtime.block_on(async {
                let batch = keyed_batch(at_once, &log, |items| {
                    let turns = items.iter().map(|item| item.place * 7 % 5).max().unwrap_or(0);
                    async move {
                        for _ in 0..turns {
                            tokio::task::yield_now().await;
                        }
                    }
                });
                let mut calls = Vec::new();
                for (place, (keys, pause)) in items.iter().enumerate() {
                    let mut call = Box::pin(batch.submit(KeyedItem { place, keys: keys.clone() }, 1));
                    assert!(poll!(&mut call).is_pending());
                    calls.push(call);
                    for _ in 0..*pause {
                        tokio::task::yield_now().await;
                    }
                }
                join_all(calls).await
            });
            for (place, answer) in answers.iter().enumerate() {
                match items[place].0.is_empty() {
                    true => prop_assert!(matches!(answer, Err(BatchError::Failed("no key")))),
                    false => prop_assert_eq!(answer.as_ref().ok(), Some(&place), "the answer is that of its own item"),
                }
            }
            let log = log.lock();
            prop_assert!(!log.shared && log.most_at_once <= at_once);
            for (key, places) in &log.places {
                let submitted = (0..items.len()).filter(|place| items[*place].0.contains(key));
                prop_assert_eq!(places, &submitted.collect::<Vec<_>>(), "each once, in order");
            }
        }
    }
}
