//! What the answer of another domain means for the tasks that it was told of: it knows them now, or a task that waits for one of its
//! agents cannot reach it and ends.

use super::draft::TaskRelay;
use crate::TaskService;
use crate::model::error::Error;
use crate::model::operation::{Actor, Operation, TaskCall};
use crate::model::state::TaskState;
use crate::store::MOST_ITEMS;
use proto_schemas::requests::task::{RelayedEvents, TaskId};

const UNKNOWN: &str = "assignee_unknown";
pub(super) const UNREACHABLE: &str = "assignee_unreachable";

impl TaskService {
    /// A task ends before its mark is removed: after a crash in between it is relayed again, and answered the same.
    pub(super) async fn end_refused(
        &self,
        issuer: &str,
        relays: &[TaskRelay],
        answer: &RelayedEvents,
    ) -> Result<(), Error> {
        for relay in relays {
            let Some(assignee) = relay.waits_for.as_ref().filter(|aid| aid.issuer() == issuer) else {
                continue;
            };
            let is_relay = |task_id: &str| task_id == relay.task_id.as_str();
            let unknown = answer
                .unknown
                .iter()
                .any(|unknown| is_relay(&unknown.task_id) && unknown.aid == assignee.as_str());
            if unknown {
                self.end_undeliverable(&relay.task_id, UNKNOWN).await?;
            } else if answer.refused.iter().any(|task_id| is_relay(task_id)) {
                self.end_undeliverable(&relay.task_id, UNREACHABLE).await?;
            }
        }
        Ok(())
    }

    /// The domain takes no tasks: those that wait for its agents end with the reason, and nothing waits for it any more.
    pub(super) async fn give_up(&self, issuer: &str, reason: &'static str) -> Result<(), Error> {
        loop {
            let marks = self.store.outbox.marks(issuer, MOST_ITEMS as i64).await?;
            if marks.is_empty() {
                return Ok(());
            }
            let keys: Vec<&str> = marks.iter().map(|mark| mark.key.as_str()).collect();
            for task in self.store.marked_tasks(&keys).await? {
                if task.state == TaskState::Submitted && task.assignee.issuer() == issuer {
                    self.end_undeliverable(&task.id, reason).await?;
                }
            }
            // The end of a task is a change of which the domain would be told, too: its mark is found by the next turn.
            let told = marks.iter().map(|mark| (mark.key.as_str(), mark.version));
            self.store.outbox.remove_marks(issuer, told).await?;
        }
    }

    async fn end_undeliverable(&self, task_id: &TaskId, reason: &'static str) -> Result<(), Error> {
        let ended = self.submit(TaskCall {
            actor: Actor::System,
            task_id: task_id.clone(),
            repeat: None,
            expected_version: None,
            operation: Operation::Undeliverable { reason },
        });
        match ended.await {
            // It is not waiting any more, or it is gone.
            Ok(_) | Err(Error::State { .. } | Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
