//! The clock: time comes in, so that a test can move it. With how times are written, and how long to wait before another attempt.

mod backoff;
mod timestamp;

pub use backoff::{Backoff, BackoffSchedule};
pub use timestamp::{from_iso, iso, iso_ms};

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug, Default)]
pub enum Clock {
    #[default]
    System,
    /// Milliseconds since 1970, moved by a test.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    pub fn manual(start_ms: i64) -> Clock {
        Clock::Manual(Arc::new(AtomicI64::new(start_ms)))
    }

    pub fn now_ms(&self) -> i64 {
        match self {
            Clock::System => system_ms(),
            Clock::Manual(now) => now.load(Ordering::Relaxed),
        }
    }

    pub fn now_seconds(&self) -> i64 {
        self.now_ms().div_euclid(1000)
    }

    /// Moves a manual clock; the system's clock is not ours to move.
    pub fn advance_ms(&self, by: i64) {
        if let Clock::Manual(now) = self {
            now.fetch_add(by, Ordering::Relaxed);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the system's clock")]
fn system_ms() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    }
}
