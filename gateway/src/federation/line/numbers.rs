//! What is counted on a line: for the metrics, and for the operator who asks how things stand with a domain.

use super::Line;
use crate::federation::peer_state::PeerState;
use services::kernel::codes;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

impl Line {
    /// How a call ended, by its code; 0 if it went well.
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

    pub(super) fn look_at_oldest(&self, now: Instant) {
        self.saw_oldest(self.oldest_waiting(now));
    }

    pub fn oldest_waiting(&self, now: Instant) -> Duration {
        let state = self.state.lock();
        state.waiting.front().map_or(Duration::ZERO, |job| now.saturating_duration_since(job.since))
    }

    pub fn saw_oldest(&self, waited: Duration) {
        self.oldest_ms.store(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
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
