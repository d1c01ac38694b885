//! Waiting for things, never for time: every wait here ends with what was waited for, or with a sentence that names it.

use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long anything may take on a machine that is busy with the other tests.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a question is asked again.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The outcome of `work`, which must come in time.
pub async fn within<F: Future>(what: &str, work: F) -> F::Output {
    timeout(WAIT_TIMEOUT, work)
        .await
        .unwrap_or_else(|_| panic!("{what}: nothing came within {WAIT_TIMEOUT:?}"))
}

/// Asks until the answer is there, and gives it.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not so within {WAIT_TIMEOUT:?}");
        sleep(POLL_INTERVAL).await;
    }
}
