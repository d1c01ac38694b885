//! The one task of a line: it dials and speaks until nothing waits any more, and pauses after a failure.

use super::Line;
use crate::federation::Federation;
use crate::federation::dial::{self, Linked};
use crate::federation::job::Job;
use crate::federation::link::{End, Link};
use crate::federation::peer_state::Outbound;
use crate::federation::trouble::{Failure, Phase};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Links that last less than this, several times in a row, are no reason to dial at once again.
const SHORT_LIFE: Duration = Duration::from_secs(2);
const SHORT_LIVES: u32 = 2;
/// How often deadlines are looked at while a link is being made.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// However the task ends, the next job finds that there is none and starts another.
pub(super) struct Running(Option<Arc<Line>>);

impl Running {
    pub(super) fn new(line: &Arc<Line>) -> Running {
        Running(Some(line.clone()))
    }

    pub(super) async fn run(mut self, fed: Arc<Federation>) {
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

impl Line {
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
            state.breaker.open(now, |wait| fed.ids.jitter(wait));
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
}
