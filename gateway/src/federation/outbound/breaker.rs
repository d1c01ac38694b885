//! A circuit breaker: after a failed dial nobody dials for a moment, and calls fail at once instead of waiting in vain.

use kernel::BackoffSchedule;
use std::time::Duration;
use tokio::time::Instant;

const PAUSES: BackoffSchedule = BackoffSchedule::new(Duration::from_secs(2), Duration::from_secs(10));

#[derive(Debug, Default)]
pub struct Breaker {
    open_until: Option<Instant>,
    /// Failed dials in a row.
    failures: i64,
}

impl Breaker {
    /// A dial failed. `jitter` takes a random share of the pause, so that gateways that lost the same peer do not all dial
    /// it at the same moment.
    pub fn open(&mut self, now: Instant, jitter: impl Fn(Duration) -> Duration) {
        self.failures = self.failures.saturating_add(1);
        self.open_until = Some(now + jitter(PAUSES.after(self.failures)));
    }

    /// For how long nobody may dial yet; `None` if the next call may.
    pub fn open_for(&self, now: Instant) -> Option<Duration> {
        self.open_until.and_then(|until| until.checked_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// The peer is reachable.
    pub fn reset(&mut self) {
        *self = Breaker::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_from_two_seconds_to_ten_and_starts_over_after_a_success() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        assert_eq!(breaker.open_for(now), None);
        for seconds in [2, 4, 8, 10, 10] {
            breaker.open(now, |pause| pause);
            assert_eq!(breaker.open_for(now), Some(Duration::from_secs(seconds)));
        }
        assert_eq!(breaker.open_for(now + Duration::from_secs(10)), None, "the next call dials");
        breaker.reset();
        assert_eq!(breaker.open_for(now), None);
        breaker.open(now, |pause| pause / 2);
        assert_eq!(breaker.open_for(now), Some(Duration::from_secs(1)));
    }
}
