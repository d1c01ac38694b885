//! How long to wait before the next attempt.

use super::chance::random_bytes;
use std::time::Duration;

/// The longest wait before the first attempt, and before a late one.
const SOON: Duration = Duration::from_millis(500);
const LATE: Duration = Duration::from_secs(30);

/// The wait after so many attempts that failed: twice as long each time up to half a minute, with jitter, so that the agents of
/// one server do not come back together.
pub fn pause(tries: u32) -> Duration {
    let [random] = random_bytes::<1>();
    longest(tries).mul_f64(0.5 + f64::from(random) / 512.0)
}

fn longest(tries: u32) -> Duration {
    SOON.saturating_mul(2_u32.saturating_pow(tries)).min(LATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rare_and_stay_bounded() {
        for tries in 0..100 {
            let (wait, longest) = (pause(tries), longest(tries));
            assert!(wait >= longest / 2 && wait <= longest, "{tries}: {wait:?}");
        }
        assert!(pause(0) <= SOON && pause(99) >= LATE / 2);
    }
}
