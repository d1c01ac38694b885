//! What the stores of a process count, by service: plain numbers, added to once a commit and read when asked.

use crate::trace;
use futures_util::future::join_all;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A commit that took at most so long is counted in the first bucket; each bucket after it holds twice as long.
const FIRST_NANOS: u64 = 100_000;
/// Up to 13 seconds; what takes longer is counted beyond.
const BOUNDS: usize = 18;

/// The stores of the services that run in this process.
#[derive(Clone, Default)]
pub struct Stores(Arc<Mutex<BTreeMap<&'static str, WatchedStore>>>);

/// A store, and how it is asked whether it answers. The question is kept here and not in the tally: whoever answers has the tally.
#[derive(Clone, Default)]
struct WatchedStore {
    tally: Arc<Tally>,
    probe: Option<StoreProbe>,
}

impl Stores {
    /// The one tally of a service's store.
    pub fn tally(&self, service: &'static str) -> Arc<Tally> {
        self.0.lock().entry(service).or_default().tally.clone()
    }

    /// How the store of a service is asked whether it answers, which has a deadline of its own. One that cannot be asked counts as up.
    pub fn set_probe<Fut>(&self, service: &'static str, probe: impl Fn() -> Fut + Send + Sync + 'static)
    where
        Fut: Future<Output = sqlx::Result<()>> + Send + 'static,
    {
        let probe: StoreProbe = Arc::new(move || -> ProbeFuture { Box::pin(probe()) });
        self.0.lock().entry(service).or_default().probe = Some(probe);
    }

    /// How each of them is right now, by the name of its service.
    pub fn stats(&self) -> Vec<(&'static str, StoreStats)> {
        self.0.lock().iter().map(|(service, store)| (*service, store.tally.stats())).collect()
    }

    /// Whether each of them answered when it was asked last.
    pub fn up(&self) -> Vec<(&'static str, bool)> {
        self.0.lock().iter().map(|(service, store)| (*service, store.tally.is_up())).collect()
    }

    /// Asks all of them at the same time whether they answer.
    pub async fn probe(&self) {
        let stores: Vec<(&str, WatchedStore)> =
            self.0.lock().iter().map(|(service, store)| (*service, store.clone())).collect();
        join_all(stores.iter().map(|(service, store)| store.ask(service))).await;
    }

    /// Nobody asks any more: the stores can be closed.
    pub fn forget_probes(&self) {
        self.0.lock().values_mut().for_each(|store| store.probe = None);
    }
}

impl WatchedStore {
    async fn ask(&self, service: &str) {
        let Some(probe) = &self.probe else { return };
        let answer = probe().await;
        let was_down = self.tally.down.swap(answer.is_err(), Ordering::Relaxed);
        match answer {
            Err(error) if !was_down => tracing::warn!("the store of {service} does not answer: {error}"),
            Ok(()) if was_down => tracing::info!("the store of {service} answers again"),
            _ => {}
        }
    }
}

/// The state of a store at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreStats {
    /// How many commits took longer than the bound before and at most this one, in seconds. The last bound is endless.
    pub commits: Vec<(f64, u64)>,
    /// What all of them took together.
    pub seconds: f64,
    /// What was committed.
    pub rows: u64,
    /// Commits of which something was not stored.
    pub failures: u64,
    /// Writes that were refused because too much waited.
    pub busy: u64,
    /// What waits to be committed, or is being committed.
    pub queue_bytes: usize,
    /// What is committed and waits to be indexed, where that comes later.
    pub unindexed_bytes: Option<usize>,
    /// Whether it answered when it was asked last.
    pub up: bool,
}

/// Reads how much waits in a queue.
type QueueBytes = Box<dyn Fn() -> usize + Send + Sync>;

/// An answer of a store that is still to come.
type ProbeFuture = Pin<Box<dyn Future<Output = sqlx::Result<()>> + Send>>;

/// Asks a store whether it answers.
type StoreProbe = Arc<dyn Fn() -> ProbeFuture + Send + Sync>;

/// What one store counts.
#[derive(Default)]
pub struct Tally {
    commits: [AtomicU64; BOUNDS + 1],
    nanos: AtomicU64,
    rows: AtomicU64,
    failures: AtomicU64,
    busy: AtomicU64,
    queues: Mutex<Vec<QueueBytes>>,
    unindexed: Mutex<Option<QueueBytes>>,
    down: AtomicBool,
}

impl Tally {
    /// Counts a commit that was to store so many rows and stored so many of them. Callers are answered after this, so
    /// that a caller that was answered finds it counted.
    pub fn commit(&self, took: Duration, rows: usize, stored: usize) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.commits[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.rows.fetch_add(stored as u64, Ordering::Relaxed);
        if stored < rows {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a commit of one row of its own.
    pub async fn time<T>(&self, commit: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
        let _step = trace::step("store", "commit");
        let began = Instant::now();
        let outcome = commit.await;
        self.commit(began.elapsed(), 1, usize::from(outcome.is_ok()));
        outcome
    }

    /// Counts a write that was refused because too much waits.
    pub fn refuse(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    /// A queue in front of the store is read when the statistics are: what is put into it need not be counted.
    pub fn add_queue(&self, bytes: impl Fn() -> usize + Send + Sync + 'static) {
        self.queues.lock().push(Box::new(bytes));
    }

    /// The same for what is committed and not indexed yet.
    pub fn set_unindexed(&self, bytes: impl Fn() -> usize + Send + Sync + 'static) {
        *self.unindexed.lock() = Some(Box::new(bytes));
    }

    /// Whether it answered when it was asked last.
    pub fn is_up(&self) -> bool {
        !self.down.load(Ordering::Relaxed)
    }

    pub fn stats(&self) -> StoreStats {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        StoreStats {
            commits: self.commits.iter().enumerate().map(|(at, count)| (bound(at), now(count))).collect(),
            seconds: now(&self.nanos) as f64 / 1e9,
            rows: now(&self.rows),
            failures: now(&self.failures),
            busy: now(&self.busy),
            queue_bytes: self.queues.lock().iter().map(|bytes| bytes()).sum(),
            unindexed_bytes: self.unindexed.lock().as_ref().map(|bytes| bytes()),
            up: self.is_up(),
        }
    }
}

fn bound(bucket: usize) -> f64 {
    if bucket < BOUNDS { (FIRST_NANOS << bucket) as f64 / 1e9 } else { f64::INFINITY }
}

fn bucket(nanos: u64) -> usize {
    let doubled = nanos.div_ceil(FIRST_NANOS).max(1).next_power_of_two().trailing_zeros();
    usize::try_from(doubled).unwrap_or(BOUNDS).min(BOUNDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_counted_at_the_first_bound_it_does_not_pass() {
        for (nanos, bounded) in [
            (0, 0.0001),
            (100_000, 0.0001),
            (100_001, 0.0002),
            (200_000, 0.0002),
            (3_000_000, 0.0032),
            (13_107_200_000, 13.1072),
            (13_107_200_001, f64::INFINITY),
            (u64::MAX, f64::INFINITY),
        ] {
            assert_eq!(bound(bucket(nanos)), bounded, "{nanos}");
        }
    }

    #[test]
    fn a_service_has_one_tally_and_every_queue_of_it_counts() {
        let stores = Stores::default();
        stores.tally("auth").commit(Duration::from_millis(3), 4, 4);
        stores.tally("auth").commit(Duration::from_millis(3), 4, 1);
        stores.tally("auth").refuse();
        stores.tally("auth").add_queue(|| 30);
        stores.tally("auth").add_queue(|| 12);
        stores.tally("ca").set_unindexed(|| 7);
        let [("auth", auth), ("ca", ca)] = &stores.stats()[..] else { panic!("two services, by name") };
        assert_eq!((auth.rows, auth.failures, auth.busy, auth.queue_bytes), (5, 1, 1, 42));
        assert_eq!(auth.commits.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(), [&(0.0032, 2)]);
        assert!((auth.seconds - 0.006).abs() < 1e-9);
        assert_eq!((auth.unindexed_bytes, ca.unindexed_bytes), (None, Some(7)));
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_is_down_until_it_does() {
        let (stores, answers) = (Stores::default(), Arc::new(AtomicBool::new(true)));
        let asked = answers.clone();
        stores.set_probe("auth", move || {
            let answers = asked.load(Ordering::Relaxed);
            async move { if answers { Ok(()) } else { Err(sqlx::Error::PoolTimedOut) } }
        });
        stores.tally("ca").refuse();
        for up in [true, false, true] {
            answers.store(up, Ordering::Relaxed);
            stores.probe().await;
            assert_eq!(stores.up(), [("auth", up), ("ca", true)]);
        }
    }
}
