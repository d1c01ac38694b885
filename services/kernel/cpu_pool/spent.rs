//! How long the server has computed for somebody within the last minute.

use super::CpuOwner;
use crate::Cache;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);
/// Pieces of work within a second count as one.
const STEP: Duration = Duration::from_secs(1);
/// Owners that are remembered. One that is forgotten because so many others came later has its time again.
const MOST_OWNERS: usize = 10_000;

pub(super) struct SpentTime(Cache<CpuOwner, SpentMinute>);

/// What was spent, oldest first, each with the time when it began.
#[derive(Default)]
struct SpentMinute {
    pieces: VecDeque<(Instant, Duration)>,
    sum: Duration,
}

impl Default for SpentTime {
    fn default() -> SpentTime {
        SpentTime(Cache::new(MOST_OWNERS))
    }
}

impl SpentTime {
    pub fn add(&mut self, owner: &CpuOwner, took: Duration, now: Instant) {
        let minute = self.0.get_or_insert_with(owner.clone(), SpentMinute::default);
        minute.sum += took;
        match minute.pieces.back_mut() {
            Some((began, piece)) if now.duration_since(*began) < STEP => *piece += took,
            _ => minute.pieces.push_back((now, took)),
        }
    }

    /// How long the owner has to wait until it has spent less than so much within a minute; none if it has.
    pub fn wait(&mut self, owner: &CpuOwner, most: Duration, now: Instant) -> Option<Duration> {
        let minute = self.0.get_mut(owner)?;
        while let Some((began, took)) = minute.pieces.front()
            && now.duration_since(*began) >= MINUTE
        {
            minute.sum = minute.sum.saturating_sub(*took);
            minute.pieces.pop_front();
        }
        let mut left = minute.sum;
        if left < most {
            return None;
        }
        for (began, took) in &minute.pieces {
            left = left.saturating_sub(*took);
            if left < most {
                return Some(MINUTE.saturating_sub(now.duration_since(*began)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_minute_ago_does_not_count_any_more() {
        let (mut spent, began) = (SpentTime::default(), Instant::now());
        let (second, most) = (Duration::from_secs(1), Duration::from_secs(2));
        assert_eq!(spent.wait(&CpuOwner::Server, most, began), None, "nothing was spent");
        for n in 0..3 {
            spent.add(&CpuOwner::Server, second, began + n * 10 * second);
        }
        let now = began + 30 * second;
        // Of three seconds two have to go: the second one ends to count after 40 seconds more.
        assert_eq!(spent.wait(&CpuOwner::Server, most, now), Some(40 * second));
        assert_eq!(spent.wait(&CpuOwner::Server, most, now + 40 * second), None);
        assert_eq!(spent.wait(&CpuOwner::Server, second, now + 40 * second), Some(10 * second));
    }
}
