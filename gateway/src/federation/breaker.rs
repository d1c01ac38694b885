//! After a failed dial nobody dials for a moment: calls inside it fail at once instead of waiting in vain.

use std::time::Duration;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(2);
const LAST: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct Breaker {
    until: Option<Instant>,
    wait: Duration,
}

impl Breaker {
    /// A dial failed. `part` takes a random part of the wait, so that those who lost the same peer do not come together.
    pub fn open(&mut self, now: Instant, part: impl Fn(Duration) -> Duration) {
        self.wait = (self.wait * 2).clamp(FIRST, LAST);
        self.until = Some(now + part(self.wait));
    }

    /// How long nobody dials yet; `None` where the next call tries it.
    pub fn shut_for(&self, now: Instant) -> Option<Duration> {
        self.until.and_then(|until| until.checked_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// The peer is there.
    pub fn reset(&mut self) {
        *self = Breaker::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_from_two_seconds_to_ten_and_begins_anew_after_a_success() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        assert_eq!(breaker.shut_for(now), None);
        for seconds in [2, 4, 8, 10, 10] {
            breaker.open(now, |wait| wait);
            assert_eq!(breaker.shut_for(now), Some(Duration::from_secs(seconds)));
        }
        assert_eq!(breaker.shut_for(now + Duration::from_secs(10)), None, "the next call tries it");
        breaker.reset();
        assert_eq!(breaker.shut_for(now), None);
        breaker.open(now, |wait| wait / 2);
        assert_eq!(breaker.shut_for(now), Some(Duration::from_secs(1)));
    }
}
