//! What becomes of the tasks of an agent when its AID ends.
//!
//! Its open tasks end at once, and the other side is told why: what nobody wants is canceled, what nobody does has failed. Tasks that
//! have ended stay for the others who took part in them, until the retention; where nobody is left, they are removed.

use super::TaskService;
use super::model::error::Error;
use super::model::operation::{Actor, Operation, TaskCall};
use super::model::state::TaskState;
use super::store::{EndedTasksPage, TaskSide};
use futures_util::future::join_all;
use kernel::{Aid, RemoveAgent, RpcError};
use proto_schemas::requests::task::TaskId;
use std::collections::BTreeSet;

/// Open tasks that are ended at once, and ended ones whose trees are looked at together: a tree may have a hundred tasks.
const OPEN: i64 = 256;
const ENDED: i64 = 50;

impl RemoveAgent for TaskService {
    async fn remove_agent(&self, aid: &Aid, _: i64) -> Result<(), RpcError> {
        // First: from now on nobody gives it a task.
        self.agents.forget(aid);
        self.end_tasks_of(aid).await?;
        self.store.remove_rows_of(aid).await?;
        self.remove_trees_of(aid).await?;
        Ok(())
    }
}

impl TaskService {
    async fn end_tasks_of(&self, aid: &Aid) -> Result<(), Error> {
        loop {
            let open = self.store.open_tasks_of(aid, OPEN).await?;
            if open.is_empty() {
                return Ok(());
            }
            let calls = open.into_iter().map(|task_id| TaskCall {
                actor: Actor::System,
                task_id,
                repeat: None,
                expected_version: None,
                operation: Operation::EndFor { aid: aid.clone() },
            });
            for ended in join_all(calls.map(|call| self.submit(call))).await {
                match ended {
                    // A call, another process or the end of a task above was faster.
                    Ok(_) | Err(Error::NotFound(_) | Error::State { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Removes the trees in which this agent was the last who took part.
    async fn remove_trees_of(&self, aid: &Aid) -> Result<(), Error> {
        for side in TaskSide::ALL {
            for state in TaskState::ALL.into_iter().filter(|state| state.is_terminal()) {
                let mut page = EndedTasksPage { side, state, after: (0, String::new()), most: ENDED };
                loop {
                    let tasks = self.store.ended_tasks_of(aid, &page).await?;
                    let Some((at, last)) = tasks.last() else { break };
                    page.after = (*at, last.to_string());
                    self.remove_trees_without(aid, tasks.into_iter().map(|(_, id)| id).collect()).await?;
                }
            }
        }
        Ok(())
    }

    async fn remove_trees_without(&self, aid: &Aid, tasks: BTreeSet<TaskId>) -> Result<(), Error> {
        let (mut gone, mut somebody_left) = (BTreeSet::from([aid.clone()]), BTreeSet::new());
        for participants in self.store.participants_of_trees(&tasks).await? {
            for other in participants {
                if gone.contains(&other) {
                    continue;
                }
                // One is enough: the tree stays for it.
                if somebody_left.contains(&other) || !self.is_gone(&other).await? {
                    somebody_left.insert(other);
                    break;
                }
                gone.insert(other);
            }
        }
        Ok(self.store.remove_trees(&tasks, &gone).await?)
    }

    /// Of an agent of another domain only that one knows.
    async fn is_gone(&self, aid: &Aid) -> Result<bool, Error> {
        Ok(aid.issuer() == self.issuer && !self.is_registered(aid).await?)
    }
}
