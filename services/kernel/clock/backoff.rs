//! How long to wait before the next attempt: longer each time, and never the same for two processes.

use crate::Ids;
use std::time::Duration;

/// The waits between attempts: the first one, doubled after each failure up to the longest.
///
/// For attempts that are counted elsewhere, such as in a row of a database. A loop that counts its own has [`Backoff`].
#[derive(Clone, Copy, Debug)]
pub struct BackoffSchedule {
    first: Duration,
    longest: Duration,
}

impl BackoffSchedule {
    pub const fn new(first: Duration, longest: Duration) -> BackoffSchedule {
        BackoffSchedule { first, longest }
    }

    /// The longest that the wait after this many failures in a row may be. [`Ids::jitter`] takes its share of it.
    pub fn after(&self, failures: i64) -> Duration {
        let doublings = u32::try_from(failures.saturating_sub(1).clamp(0, 31)).unwrap_or_default();
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}

/// The waits of a loop that attempts something until it succeeds. Half of each is left to chance.
pub struct Backoff {
    schedule: BackoffSchedule,
    failures: i64,
    ids: Ids,
}

impl Backoff {
    pub fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { schedule: BackoffSchedule::new(first, longest), failures: 0, ids: Ids::default() }
    }

    /// An attempt succeeded: the next wait is short again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Counts a failure, and waits until the next attempt may be made.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }

    fn next(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.ids.jitter(self.schedule.after(self.failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_wait_doubles_up_to_the_longest() {
        let schedule = BackoffSchedule::new(SECOND, 10 * SECOND);
        let waits: Vec<u64> = (0..8).map(|failures| schedule.after(failures).as_secs()).collect();
        assert_eq!(waits, [1, 1, 2, 4, 8, 10, 10, 10]);
        assert_eq!(schedule.after(i64::MAX), 10 * SECOND);
        assert_eq!(schedule.after(i64::MIN), SECOND);
        assert_eq!(BackoffSchedule::new(10 * SECOND, SECOND).after(1), SECOND, "the longest is the bound");
        let endless = BackoffSchedule::new(Duration::MAX, Duration::MAX);
        assert_eq!(endless.after(40), Duration::MAX);
    }

    #[test]
    fn a_loop_waits_longer_each_time_by_chance_until_it_succeeds() {
        let mut backoff = Backoff::new(SECOND, 10 * SECOND);
        for most in [1, 2, 4, 8, 10, 10] {
            let (wait, most) = (backoff.next(), most * SECOND);
            assert!((most / 2..=most).contains(&wait), "{wait:?} of {most:?}");
        }
        let waits: Vec<Duration> = (0..8).map(|_| backoff.next()).collect();
        assert!(waits.windows(2).any(|two| two[0] != two[1]), "they are left to chance: {waits:?}");
        backoff.reset();
        assert!(backoff.next() <= SECOND);
    }
}
