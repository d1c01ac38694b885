//! Calls are repeated until somebody answers: the manager may be started again under a runner that works.

use super::{ErrorVerdict, ManagerError};
use client::backoff;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// After so long without an answer nobody waits for this runner any more: no turn may take longer.
const GIVE_UP: Duration = Duration::from_secs(2 * 60 * 60);

/// How a call is repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallRetry {
    /// The longest pause. It is a part of the lease, so that a manager that comes back hears of its runners while it still spares them.
    longest: Duration,
    give_up: Duration,
}

impl CallRetry {
    pub fn within_lease(lease: Duration) -> CallRetry {
        CallRetry { longest: lease / 4, give_up: GIVE_UP }
    }

    /// Repeats a call, with growing pauses of random length, while its errors are transient.
    pub async fn call<T>(
        self,
        mut attempt: impl AsyncFnMut() -> Result<T, ManagerError>,
    ) -> Result<T, ManagerError> {
        let until = Instant::now() + self.give_up;
        let mut tries = 0;
        loop {
            match attempt().await {
                Err(error) if error.verdict() == ErrorVerdict::Transient && Instant::now() < until => {
                    sleep(backoff::pause(tries).min(self.longest)).await;
                    tries += 1;
                }
                outcome => return outcome,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    fn unanswered() -> ManagerError {
        ManagerError::Unanswered("nobody is there".to_owned())
    }

    #[tokio::test]
    async fn a_call_is_repeated_until_it_is_answered_and_the_pauses_are_a_part_of_the_lease() {
        let mut tries = 0;
        let answered = CallRetry::within_lease(Duration::from_millis(8)).call(async || {
            tries += 1;
            if tries < 20 { Err(unanswered()) } else { Ok(tries) }
        });
        // With pauses of half a second and more it would take minutes.
        let answered = timeout(Duration::from_secs(10), answered).await;
        assert_eq!(answered.expect("in time").unwrap(), 20);
    }

    #[tokio::test]
    async fn nobody_is_waited_for_without_end() {
        let retry = CallRetry { longest: Duration::from_millis(1), give_up: Duration::from_millis(5) };
        let mut tries = 0;
        let outcome = retry.call(async || {
            tries += 1;
            Err::<(), _>(unanswered())
        });
        assert!(outcome.await.is_err());
        assert!(tries > 1);
    }
}
