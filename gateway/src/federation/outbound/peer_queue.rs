//! What waits to be relayed to one other domain, and the state of our link to it.

use super::breaker::Breaker;
use super::new_domains::DialAsker;
use super::peer_counters::{PeerCounters, QueueLoad};
use super::pending_relay::PendingRelay;
use crate::federation::errors::{DialPhase, LinkFailure};
use crate::telemetry::Metrics;
use parking_lot::Mutex;
use proto_schemas::requests::gateway::{ListedPeer, OutboundState};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What may be queued or in flight for one domain.
const QUEUE_BYTES: usize = 16 << 20;
const QUEUE_ITEMS: usize = 10_000;
/// The same for all domains together.
const TOTAL_BYTES: usize = 128 << 20;
/// Both for a domain that was never reached: what waits for such domains must leave space for the others.
const NEW_QUEUE_BYTES: usize = 1 << 20;
const NEW_TOTAL_BYTES: usize = TOTAL_BYTES / 2;
/// After this many links in a row that lasted less than this, the domain is not dialled again at once.
const SHORT_LINKS: u32 = 2;
const SHORT_LINK: Duration = Duration::from_secs(2);

pub struct PeerQueue {
    pub counters: Arc<PeerCounters>,
    /// Notified when a relay is queued.
    pub wake: Notify,
    /// Whether the domain was reached before, or named by the operator.
    known: AtomicBool,
    state: Mutex<PeerQueueState>,
}

#[derive(Default)]
struct PeerQueueState {
    waiting: VecDeque<PendingRelay>,
    /// Who has it dialled, if it is not known.
    asker: Option<Arc<DialAsker>>,
    /// Whether a task sends the queue.
    running: bool,
    outbound: OutboundState,
    breaker: Breaker,
    /// Links in a row that broke soon after they were made.
    short_links: u32,
    failure: Option<LinkFailure>,
    url: Option<String>,
    last_error: Option<String>,
}

/// What became of a relay that was pushed.
pub enum Pushed {
    /// It was not queued, and has ended with the reason.
    Refused,
    Queued,
    /// It is queued, and no task sends the queue: the pusher has to start one with this.
    NeedsTask(QueueTask),
}

impl PeerQueue {
    pub fn new(issuer: &str, total: &Arc<QueueLoad>, metrics: &Arc<Metrics>) -> PeerQueue {
        PeerQueue {
            counters: Arc::new(PeerCounters::new(issuer, total, metrics)),
            wake: Notify::new(),
            known: AtomicBool::new(true),
            state: Mutex::default(),
        }
    }

    pub fn issuer(&self) -> &str {
        &self.counters.issuer
    }

    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// Who has the domain dialled; nobody in particular if it is known.
    pub fn asker(&self) -> Option<Arc<DialAsker>> {
        self.state.lock().asker.clone()
    }

    pub fn set_asker(&self, asker: Option<Arc<DialAsker>>) {
        self.known.store(asker.is_none(), Ordering::Relaxed);
        self.state.lock().asker = asker;
    }

    /// Queues a relay, if there is space for it and the last dial did not fail a moment ago.
    pub fn push(self: &Arc<Self>, mut relay: PendingRelay) -> Pushed {
        if self.is_full() {
            let sentence = "too many calls wait for it already";
            let failure = LinkFailure::new(DialPhase::Connect, "queue_full", sentence);
            relay.end_unreachable(&failure, Some(Duration::from_secs(1)));
            return Pushed::Refused;
        }
        let mut state = self.state.lock();
        let needs_task = !state.running;
        if needs_task {
            if let Some(wait) = state.breaker.open_for(Instant::now()) {
                let failure = state.failure.clone().unwrap_or_else(lost_a_moment_ago);
                drop(state);
                relay.end_unreachable(&failure, Some(wait));
                return Pushed::Refused;
            }
            state.running = true;
            state.outbound = OutboundState::Connecting;
        }
        state.waiting.push_back(relay);
        drop(state);
        self.wake.notify_one();
        // `running` was set under the lock, so no one else starts a second task meanwhile.
        match needs_task {
            true => Pushed::NeedsTask(QueueTask { queue: self.clone(), stopped: false }),
            false => Pushed::Queued,
        }
    }

    fn is_full(&self) -> bool {
        let PeerCounters { load, total, .. } = &*self.counters;
        let (most, most_in_all) = match self.is_known() {
            true => (QUEUE_BYTES, TOTAL_BYTES),
            false => (NEW_QUEUE_BYTES, NEW_TOTAL_BYTES),
        };
        load.bytes.load(Ordering::Relaxed) > most
            || load.items.load(Ordering::Relaxed) > QUEUE_ITEMS
            || total.bytes.load(Ordering::Relaxed) > most_in_all
    }

    pub fn has_waiting(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    /// Takes what `pick` picks from the front of the queue.
    pub fn take<T>(&self, pick: impl FnOnce(&mut VecDeque<PendingRelay>) -> T) -> T {
        pick(&mut self.state.lock().waiting)
    }

    /// Ends the queued relays whose deadline has passed.
    pub fn end_overdue(&self, now: Instant, end: impl Fn(&mut PendingRelay)) {
        let mut overdue = VecDeque::new();
        {
            let mut state = self.state.lock();
            if state.waiting.iter().any(|relay| relay.deadline <= now) {
                let waiting = std::mem::take(&mut state.waiting);
                (overdue, state.waiting) = waiting.into_iter().partition(|relay| relay.deadline <= now);
            }
        }
        overdue.iter_mut().for_each(end);
        self.counters.set_oldest(self.oldest_waiting(now));
    }

    pub fn oldest_waiting(&self, now: Instant) -> Duration {
        let state = self.state.lock();
        state.waiting.front().map_or(Duration::ZERO, |relay| now.saturating_duration_since(relay.queued_at))
    }

    /// The domain is known to be reachable: the next call dials.
    pub fn reset_breaker(&self) {
        let mut state = self.state.lock();
        state.breaker.reset();
        state.short_links = 0;
    }

    /// Whether it can be removed: no task runs, and no pause after a failure has to be remembered.
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        !state.running && state.breaker.open_for(Instant::now()).is_none()
    }

    /// The state of the queue and of our link, as the operator sees it.
    pub fn peer_state(&self) -> ListedPeer {
        let PeerCounters { issuer, load, in_flight, oldest_ms, relayed, failed, .. } = &*self.counters;
        let (items, in_flight) = (load.items.load(Ordering::Relaxed), in_flight.load(Ordering::Relaxed));
        let state = self.state.lock();
        let retry = state.breaker.open_for(Instant::now()).filter(|_| !state.running);
        ListedPeer {
            issuer: issuer.clone(),
            outbound: state.outbound,
            inbound: 0,
            url: state.url.clone(),
            waiting: items.saturating_sub(in_flight),
            waiting_bytes: load.bytes.load(Ordering::Relaxed),
            in_flight,
            oldest_ms: oldest_ms.load(Ordering::Relaxed),
            relayed: relayed.load(Ordering::Relaxed),
            failed: failed.load(Ordering::Relaxed),
            last_error: state.last_error.clone(),
            retry_in_ms: retry.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// What happens to the link, as the task of the queue reports it.
impl PeerQueue {
    pub fn link_connecting(&self) {
        self.state.lock().outbound = OutboundState::Connecting;
    }

    pub fn link_up(&self, url: String) {
        let mut state = self.state.lock();
        state.breaker.reset();
        state.failure = None;
        state.outbound = OutboundState::Up;
        state.url = Some(url);
    }

    /// A link broke after it lasted so long; returns whether that happens too often.
    pub fn link_broke(&self, reason: &str, lasted: Duration) -> bool {
        let mut state = self.state.lock();
        state.last_error = Some(reason.to_owned());
        state.short_links = if lasted < SHORT_LINK { state.short_links + 1 } else { 0 };
        state.short_links >= SHORT_LINKS
    }

    /// Relays that were in flight on a link that ended: back to the front of the queue if they may be sent again, ended
    /// otherwise.
    pub fn take_back(&self, in_flight: Vec<PendingRelay>, now: Instant) {
        let (again, lost): (Vec<_>, Vec<_>) =
            in_flight.into_iter().partition(|relay| relay.may_send_again(now));
        for mut relay in lost {
            relay.end_link_lost();
        }
        let mut state = self.state.lock();
        for relay in again.into_iter().rev() {
            state.waiting.push_front(relay);
        }
    }

    /// The domain cannot be reached: the task ends, what waits ends with the failure, and nobody dials for a moment.
    /// `jitter` takes a random share of the pause.
    pub fn link_failed(&self, failure: &LinkFailure, jitter: impl Fn(Duration) -> Duration) {
        let now = Instant::now();
        let (waiting, wait, before) = {
            let mut state = self.state.lock();
            state.breaker.open(now, jitter);
            state.outbound = OutboundState::Down;
            state.running = false;
            state.last_error = Some(failure.sentence.clone());
            let before = state.failure.replace(failure.clone());
            (std::mem::take(&mut state.waiting), state.breaker.open_for(now), before)
        };
        // Logged once for each cause, not at every attempt.
        if before.is_none_or(|before| before.sentence != failure.sentence) {
            tracing::warn!(
                peer.issuer = %self.issuer(),
                retry_in_ms = wait.map_or(0, |wait| wait.as_millis()),
                "{}", failure.about(self.issuer())
            );
        }
        for mut relay in waiting {
            relay.end_unreachable(failure, wait);
        }
        self.counters.set_oldest(self.oldest_waiting(now));
    }

    /// Ends the task if the queue is empty. Under the lock that relays are pushed under: whoever pushes next finds no task
    /// running and starts one.
    pub fn stop_if_empty(&self) -> bool {
        let mut state = self.state.lock();
        if !state.waiting.is_empty() {
            return false;
        }
        state.running = false;
        state.outbound = OutboundState::Idle;
        self.counters.set_oldest(Duration::ZERO);
        true
    }
}

/// The right to be the one task that sends a queue. Dropped without [`QueueTask::stopped`], as by a panic, it ends what
/// waits, and the next relay that is pushed starts another task.
pub struct QueueTask {
    pub queue: Arc<PeerQueue>,
    stopped: bool,
}

impl QueueTask {
    /// The queue knows already that the task has ended, and another task may run by now.
    pub fn stopped(mut self) {
        self.stopped = true;
    }
}

impl Drop for QueueTask {
    fn drop(&mut self) {
        if self.stopped {
            return;
        }
        let waiting = {
            let mut state = self.queue.state.lock();
            state.running = false;
            std::mem::take(&mut state.waiting)
        };
        drop(waiting);
    }
}

fn lost_a_moment_ago() -> LinkFailure {
    LinkFailure::new(DialPhase::Connect, "link_lost", "the link to it was lost a moment ago")
}
