//! The line to one other domain: what waits for it, and the one task that carries it there.

mod numbers;
mod task;

use super::Federation;
use super::breaker::Breaker;
use super::job::{Job, Load};
use super::peer_state::Outbound;
use super::trouble::{Failure, Phase};
use crate::telemetry::Metrics;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use task::Running;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What may wait for one domain, or be under way to it.
const QUEUE_BYTES: usize = 16 << 20;
const QUEUE_ITEMS: usize = 10_000;
/// The same for all domains together.
const ALL_BYTES: usize = 128 << 20;

pub struct Line {
    pub issuer: String,
    pub load: Load,
    /// All lines together.
    pub all: Arc<Load>,
    pub metrics: Arc<Metrics>,
    pub wake: Notify,
    pub in_flight: AtomicUsize,
    /// How long the oldest job has waited, as of the last look.
    pub oldest_ms: AtomicU64,
    relayed: AtomicU64,
    failed: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// Whether the task is there.
    running: bool,
    outbound: Outbound,
    breaker: Breaker,
    /// Links in a row that broke soon after they were made.
    short_lives: u32,
    failure: Option<Failure>,
    url: Option<String>,
    last_error: Option<String>,
}

impl Line {
    pub fn new(issuer: &str, all: &Arc<Load>, metrics: &Arc<Metrics>) -> Line {
        Line {
            issuer: issuer.to_owned(),
            load: Load::default(),
            all: all.clone(),
            metrics: metrics.clone(),
            wake: Notify::new(),
            in_flight: AtomicUsize::new(0),
            oldest_ms: AtomicU64::new(0),
            relayed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// Takes a job, if there is service and the domain was not found away a moment ago.
    /// Otherwise the job is told so.
    pub fn put(self: &Arc<Self>, fed: &Arc<Federation>, mut job: Job) -> bool {
        let full = self.load.bytes.load(Ordering::Relaxed) > QUEUE_BYTES
            || self.load.items.load(Ordering::Relaxed) > QUEUE_ITEMS
            || self.all.bytes.load(Ordering::Relaxed) > ALL_BYTES;
        if full {
            let failure = Failure::new(Phase::Connect, "queue_full", "too much waits for it already");
            job.end_unreachable(&failure, Some(Duration::from_secs(1)));
            return false;
        }
        let mut state = self.state.lock();
        if !state.running {
            if let Some(wait) = state.breaker.shut_for(Instant::now()) {
                let failure = state.failure.clone().unwrap_or_else(broken_off);
                drop(state);
                job.end_unreachable(&failure, Some(wait));
                return false;
            }
            state.running = true;
            state.outbound = Outbound::Connecting;
            fed.tracker.spawn(Running::new(self).run(fed.clone()));
        }
        state.waiting.push_back(job);
        drop(state);
        self.wake.notify_one();
        true
    }

    pub fn has_waiting(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    /// What goes next, as `choose` picks it from the front of the queue.
    pub fn take<T>(&self, choose: impl FnOnce(&mut VecDeque<Job>) -> T) -> T {
        choose(&mut self.state.lock().waiting)
    }

    /// Ends what waits and has waited too long.
    pub fn end_overdue(&self, now: Instant, end: impl Fn(&mut Job)) {
        let mut overdue = VecDeque::new();
        {
            let mut state = self.state.lock();
            if state.waiting.iter().any(|job| job.deadline <= now) {
                let waiting = std::mem::take(&mut state.waiting);
                (overdue, state.waiting) = waiting.into_iter().partition(|job| job.deadline <= now);
            }
        }
        overdue.iter_mut().for_each(end);
        self.look_at_oldest(now);
    }

    /// The domain is known to be there: the next call dials.
    pub fn forgive(&self) {
        let mut state = self.state.lock();
        state.breaker.reset();
        state.short_lives = 0;
    }

    /// Whether it can be forgotten: nobody is on it, and it says nothing about the next call.
    pub fn is_over(&self) -> bool {
        let state = self.state.lock();
        !state.running && state.breaker.shut_for(Instant::now()).is_none()
    }
}

fn broken_off() -> Failure {
    Failure::new(Phase::Connect, "link_lost", "it was lost a moment ago")
}
