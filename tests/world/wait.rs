//! Waiting for things, never for time: every wait here ends with what was waited for, or with a sentence that names it.

use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long anything may take on a machine that is busy with the other tests.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How often a question is asked again.
const PACE: Duration = Duration::from_millis(20);

/// The outcome of `work`, which must come in time.
pub async fn within<F: Future>(what: &str, work: F) -> F::Output {
    timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("{what}: nothing came within {PATIENCE:?}"))
}

/// Asks until the answer is there, and gives it.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not so within {PATIENCE:?}");
        sleep(PACE).await;
    }
}
