//! How long to wait before the next attempt: longer each time, and never the same for two processes.

use super::Ids;
use std::time::Duration;

/// Doubles from the first wait to the longest, each time with half of it left to chance.
pub struct Backoff {
    first: Duration,
    longest: Duration,
    wait: Duration,
    ids: Ids,
}

impl Backoff {
    pub fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { first, longest, wait: first, ids: Ids::default() }
    }

    /// An attempt succeeded: the next wait is short again.
    pub fn reset(&mut self) {
        self.wait = self.first;
    }

    pub async fn wait(&mut self) {
        let [chance] = self.ids.bytes::<1>();
        let half = self.wait / 2;
        self.wait = (self.wait * 2).min(self.longest);
        tokio::time::sleep(half + half * u32::from(chance) / 255).await;
    }
}
