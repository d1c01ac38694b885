//! The line to one other domain: what waits for it, the one task that dials and speaks, and the pause after a failure.

use super::Federation;
use super::breaker::Breaker;
use super::dial::{self, Linked};
use super::job::{Job, Load};
use super::link::{End, Link};
use super::peer_state::{Outbound, PeerState};
use super::trouble::{Failure, Phase};
use crate::telemetry::Metrics;
use parking_lot::Mutex;
use services::kernel::codes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// What may wait for one domain, or be under way to it.
const QUEUE_BYTES: usize = 16 << 20;
const QUEUE_ITEMS: usize = 10_000;
/// The same for all domains together.
const ALL_BYTES: usize = 128 << 20;
/// Links that last less than this, several times in a row, are no reason to dial at once again.
const SHORT_LIFE: Duration = Duration::from_secs(2);
const SHORT_LIVES: u32 = 2;
/// How often deadlines are looked at while a link is being made.
const LOOK_EVERY: Duration = Duration::from_millis(100);

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

    /// Takes a job, if there is room and the domain was not found away a moment ago.
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
            let (running, fed) = (Running(Some(self.clone())), fed.clone());
            fed.tracker.clone().spawn(running.run(fed));
        }
        state.waiting.push_back(job);
        drop(state);
        self.wake.notify_one();
        true
    }

    /// Dials and speaks until nothing waits any more, or the domain cannot be reached.
    async fn run(self: &Arc<Self>, fed: &Arc<Federation>) {
        loop {
            let linked = match self.dial(fed).await {
                Ok(linked) => linked,
                Err(failure) => return self.fail(fed, failure),
            };
            let began = Instant::now();
            self.up(&linked);
            fed.came_back(&self.issuer);
            let (end, under_way) = Link::new(self, linked).speak(fed).await;
            self.metrics.federation_links.dec();
            self.in_flight.store(0, Ordering::Relaxed);
            let now = Instant::now();
            self.take_back(under_way, now);
            if let End::Broken(reason) = end {
                tracing::warn!(peer.issuer = %self.issuer, "the link to {} ended: {reason}", self.issuer);
                if self.broke(&reason, now - began) {
                    return self.fail(fed, Failure::new(Phase::Connect, "link_lost", reason));
                }
            }
            if self.rests() {
                return;
            }
        }
    }

    /// A link, while those whose time is over are told so.
    async fn dial(self: &Arc<Self>, fed: &Arc<Federation>) -> Result<Linked, Failure> {
        self.state.lock().outbound = Outbound::Connecting;
        let dialling = async {
            let Ok(Ok(_turn)) = timeout(dial::PATIENCE, fed.peers.dialling.acquire()).await else {
                let sentence = "too many other domains are being dialled";
                return Err(Failure::new(Phase::Connect, "busy", sentence));
            };
            dial::dial(fed, &self.issuer).await
        };
        tokio::pin!(dialling);
        loop {
            tokio::select! {
                linked = &mut dialling => return linked,
                () = sleep(LOOK_EVERY) => {
                    let slow = Failure::new(Phase::Connect, "connect_timeout", "no link was made in time");
                    self.end_overdue(Instant::now(), |job| job.end_unreachable(&slow, None));
                }
            }
        }
    }

    fn up(&self, linked: &Linked) {
        tracing::info!(peer.issuer = %self.issuer, "{} is reached at {}", self.issuer, linked.place);
        self.metrics.federation_links.inc();
        let mut state = self.state.lock();
        state.breaker.reset();
        state.failure = None;
        state.outbound = Outbound::Up;
        state.url = Some(linked.place.to_string());
    }

    /// Nobody dials for a moment, and whoever waits is told why.
    fn fail(&self, fed: &Federation, failure: Failure) {
        let now = Instant::now();
        let (waiting, wait, before) = {
            let mut state = self.state.lock();
            state.breaker.open(now, |wait| fed.ids.part_of(wait));
            state.outbound = Outbound::Down;
            state.running = false;
            state.last_error = Some(failure.sentence.clone());
            let before = state.failure.replace(failure.clone());
            (std::mem::take(&mut state.waiting), state.breaker.shut_for(now), before)
        };
        // Said once, not at every try.
        if before.is_none_or(|before| before.sentence != failure.sentence) {
            tracing::warn!(
                peer.issuer = %self.issuer,
                retry_in_ms = wait.map_or(0, |wait| wait.as_millis()),
                "{} cannot be reached: {}", self.issuer, failure.sentence
            );
        }
        for mut job in waiting {
            job.end_unreachable(&failure, wait);
        }
        self.look_at_oldest(now);
    }

    /// Takes note of a link that broke; says whether that happens too often.
    fn broke(&self, reason: &str, after: Duration) -> bool {
        let mut state = self.state.lock();
        state.last_error = Some(reason.to_owned());
        state.short_lives = if after < SHORT_LIFE { state.short_lives + 1 } else { 0 };
        state.short_lives >= SHORT_LIVES
    }

    /// What was under way on a link that ended: first in the queue if it may be sent again, told otherwise.
    fn take_back(&self, under_way: Vec<Job>, now: Instant) {
        let (again, lost): (Vec<_>, Vec<_>) = under_way.into_iter().partition(|job| job.may_go_again(now));
        for mut job in lost {
            job.end_lost();
        }
        let mut state = self.state.lock();
        for job in again.into_iter().rev() {
            state.waiting.push_front(job);
        }
    }

    /// Ends the task if nothing waits; under the lock that jobs come in under.
    fn rests(&self) -> bool {
        let mut state = self.state.lock();
        if !state.waiting.is_empty() {
            return false;
        }
        state.running = false;
        state.outbound = Outbound::Idle;
        self.oldest_ms.store(0, Ordering::Relaxed);
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

    fn look_at_oldest(&self, now: Instant) {
        let oldest = self.state.lock().waiting.front().map(|job| now.saturating_duration_since(job.since));
        self.saw_oldest(oldest.unwrap_or_default());
    }

    pub fn oldest_waiting(&self, now: Instant) -> Duration {
        let state = self.state.lock();
        state.waiting.front().map_or(Duration::ZERO, |job| now.saturating_duration_since(job.since))
    }

    pub fn saw_oldest(&self, waited: Duration) {
        self.oldest_ms.store(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
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

    pub fn ended(&self, code: i32) {
        let outcomes = &self.metrics.relayed;
        let (outcome, count) = match code {
            code if code == codes::FEDERATION_UNREACHABLE.code => (&outcomes.unreachable, &self.failed),
            code if code == codes::FEDERATION_TIMEOUT.code => (&outcomes.timeout, &self.failed),
            code if code == codes::FEDERATION_REFUSED.code => (&outcomes.refused, &self.failed),
            _ => (&outcomes.answered, &self.relayed),
        };
        outcome.inc();
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub fn shown(&self) -> PeerState {
        let (items, in_flight) =
            (self.load.items.load(Ordering::Relaxed), self.in_flight.load(Ordering::Relaxed));
        let state = self.state.lock();
        let retry = state.breaker.shut_for(Instant::now()).filter(|_| !state.running);
        PeerState {
            issuer: self.issuer.clone(),
            outbound: state.outbound,
            inbound: 0,
            url: state.url.clone(),
            waiting: items.saturating_sub(in_flight),
            waiting_bytes: self.load.bytes.load(Ordering::Relaxed),
            in_flight,
            oldest_ms: self.oldest_ms.load(Ordering::Relaxed),
            relayed: self.relayed.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            last_error: state.last_error.clone(),
            retry_in_ms: retry.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

fn broken_off() -> Failure {
    Failure::new(Phase::Connect, "link_lost", "it was lost a moment ago")
}

/// The task of a line. However it ends, the next job finds that there is none and starts another.
struct Running(Option<Arc<Line>>);

impl Running {
    async fn run(mut self, fed: Arc<Federation>) {
        if let Some(line) = self.0.clone() {
            line.run(&fed).await;
        }
        // It has said so itself, and another task may be there already.
        self.0 = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(line) = &self.0 else { return };
        let waiting = {
            let mut state = line.state.lock();
            state.running = false;
            std::mem::take(&mut state.waiting)
        };
        drop(waiting);
    }
}
