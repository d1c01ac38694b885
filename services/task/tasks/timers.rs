//! Ends tasks to which nothing happens: that nobody accepts, whose owner does not answer, or that nobody works on.

use crate::TaskService;
use crate::model::answer::TaskAnswer;
use crate::model::error::Error;
use crate::model::operation::{Actor, Operation, TaskCall};
use futures_util::future::join_all;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(1);
/// Tasks that are ended at once.
const MOST: i64 = 256;

impl TaskService {
    /// Runs until the server stops.
    pub(crate) async fn run_timers(&self) {
        loop {
            match self.end_due().await {
                // There may be more.
                Ok(found) if found == MOST as usize => continue,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!("timed-out tasks could not be ended, will retry: {error}");
                }
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Ends tasks whose time is over; returns how many were found. Whether a time is really over is decided with the calls that come
    /// at the same moment: either the call is first, and the time is another one, or the end is, and the call finds a task that has
    /// ended.
    pub(crate) async fn end_due(&self) -> Result<usize, Error> {
        let due = self.store.due(self.clock.now_ms(), MOST).await?;
        let calls = due.into_iter().map(|(task_id, due_at)| TaskCall {
            actor: Actor::System,
            task_id,
            repeat: None,
            expected_version: None,
            operation: Operation::TimeOut { due_at },
        });
        let ended = join_all(calls.map(|call| self.submit(call))).await;
        let found = ended.len();
        for answer in ended {
            match answer {
                Ok(TaskAnswer::TimedOut(true)) => {
                    self.metrics.timed_out.inc();
                }
                // Another process was faster, or a call.
                Ok(_) | Err(Error::NotFound(_) | Error::State { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}
