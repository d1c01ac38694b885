//! Runners for the turns of conversations: they are started by the server, one for each conversation, in the order in which turns came.

use crate::RunService;
use crate::error::Error;
use crate::launching::{MOST_RUNNERS, TurnRunner};
use crate::model::call::{CallAccess, RunOperation};
use crate::model::run::Failure;
use kernel::RpcError;
use proto_schemas::requests::run::{LauncherKind, TerminalStatus};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How often it is looked for turns that no runner has: whose runner has died, or that wait for a place among the runners.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The same while turns wait for a place.
const LOOK_FOR_PLACE: Duration = Duration::from_millis(300);
/// Turns that are looked at in one go. Those that came first have the first places.
const AT_ONCE: i64 = 64;

impl RunService {
    /// Has a turn worked on that was just stored. What fails here is tried again by [`RunService::see_to_turns`].
    pub(super) fn has_turn_worked_on(self: &Arc<Self>, run_id: String, command_id: String) {
        let service = self.clone();
        self.tracker.spawn(async move {
            let stop = service.stop.clone();
            let seen = stop.run_until_cancelled(service.see_to_turn(&run_id, &command_id)).await;
            if !matches!(seen, Some(Ok(TurnRunner::There))) {
                service.front_ends.waiting.notify_one();
            }
        });
    }

    /// As long as the server runs. Every process of this service looks: what two of them start for one turn is one runner.
    pub(crate) async fn see_to_turns(self: Arc<Self>) {
        let mut pause = Duration::ZERO;
        loop {
            let _ = timeout(pause, self.front_ends.waiting.notified()).await;
            pause = match self.see_to_waiting().await {
                Ok(TurnRunner::ServerFull) => LOOK_FOR_PLACE,
                Ok(_) => LOOK_EVERY,
                Err(error) => {
                    RpcError::from(error).log("agui.run");
                    LOOK_EVERY
                }
            };
            // What is told again and again is looked at a few times a second.
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn see_to_waiting(self: &Arc<Self>) -> Result<TurnRunner, Error> {
        if self.launcher.kind() != LauncherKind::Local {
            return Ok(TurnRunner::There);
        }
        let waiting = self.store.waiting_parts(self.clock.now_ms(), AT_ONCE).await?;
        let mut seen = BTreeSet::new();
        for part in waiting.iter().filter(|part| seen.insert(part.run_id.clone())) {
            match self.see_to_turn(&part.run_id, &part.task_id).await {
                Ok(TurnRunner::ServerFull) => return Ok(TurnRunner::ServerFull),
                Ok(_) => {}
                Err(error) => tracing::debug!(run = part.run_id, "no runner could be started: {error}"),
            }
        }
        Ok(TurnRunner::There)
    }

    /// What cannot be worked on ends, so that its conversation goes on.
    async fn see_to_turn(self: &Arc<Self>, run_id: &str, command_id: &str) -> Result<TurnRunner, Error> {
        let found = self.runner_for(run_id, command_id, command_id, self.settings.agui.idle_ms).await;
        let failure = match &found {
            Ok(TurnRunner::There | TurnRunner::ServerFull) => return found,
            Ok(TurnRunner::GivenUp) => {
                let sentence = format!("{MOST_RUNNERS} runners ended before the run did");
                Failure::of("infra-failed", &sentence)
            }
            // The folder of the conversation is gone: the next turn has a new one.
            Err(Error::StoreEvicted(_)) => {
                let sentence = "the storage of the conversation was removed";
                let failure = Failure::of("session-store-evicted", sentence);
                let end = RunOperation::End { status: TerminalStatus::Failed, failure: failure.clone() };
                self.fail_turn(run_id, command_id, failure).await?;
                self.submit(run_id, CallAccess::System, end).await?;
                return found;
            }
            Err(Error::SecretUnavailable(sentence)) => Failure::of("secret-unavailable", sentence),
            Err(Error::StorageFull) => Failure::of("infra-failed", "session storage is over its quota"),
            Err(Error::Invalid(sentence)) => Failure::of("infra-failed", sentence),
            // It has ended meanwhile, or is tried again.
            Err(_) => return found,
        };
        self.fail_turn(run_id, command_id, failure).await?;
        found
    }

    async fn fail_turn(&self, run_id: &str, command_id: &str, failure: Failure) -> Result<(), Error> {
        let fail = RunOperation::FailCommand { command_id: command_id.to_owned(), failure };
        self.submit(run_id, CallAccess::System, fail).await.map(|_| ())
    }
}
