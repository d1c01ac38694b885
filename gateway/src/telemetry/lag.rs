//! How late the runtime is: a task that wants to run at a certain moment says when it did. If all threads compute, nobody is read or
//! answered meanwhile.

use prometheus_client::metrics::histogram::Histogram;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// How often it is measured.
const EVERY: Duration = Duration::from_millis(100);
/// From here on it is logged: clients notice it.
const LATE: Duration = Duration::from_millis(250);

/// In seconds.
const BUCKETS: [f64; 9] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0];

pub fn lag_histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

/// Measures until the server stops.
pub async fn watch_lag(lag: Histogram, stop: CancellationToken) {
    loop {
        let due = Instant::now() + EVERY;
        if stop.run_until_cancelled(sleep_until(due)).await.is_none() {
            return;
        }
        let late = due.elapsed();
        lag.observe(late.as_secs_f64());
        if late > LATE {
            tracing::warn!(
                ms = late.as_millis(),
                "the runtime is late: its threads are blocked by computation"
            );
        }
    }
}
