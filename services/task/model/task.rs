//! A task as it is stored, without what was said and what came out.

use super::state::TaskState;
use kernel::Aid;
use proto_schemas::requests::task::{ChildTask, TaskId, TaskSummary, TaskVisibility};
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TaskRow {
    pub id: TaskId,
    pub root_id: TaskId,
    pub parent_id: Option<TaskId>,
    pub depth: i64,
    pub state: TaskState,
    /// One more with every change.
    pub version: i64,
    pub owner: Aid,
    pub assignee: Aid,
    /// Owner, assignee, and who else takes part: fixed when the task is made.
    pub participants: Arc<[Aid]>,
    pub visibility: TaskVisibility,
    /// Whether the task above cannot be completed while this one is open.
    pub required: bool,
    pub title: String,
    pub reason: Option<String>,
    /// How many messages there are; the number of the last one.
    pub messages: i64,
    pub artifacts: i64,
    /// What the contents of all artifacts weigh.
    pub artifact_bytes: i64,
    pub created_at: i64,
    pub updated_at: i64,
    pub accepted_at: Option<i64>,
    pub ended_at: Option<i64>,
    /// When the server ends it if nothing happens. Every open task has such a time.
    pub due_at: Option<i64>,
}

impl TaskRow {
    pub fn is_open(&self) -> bool {
        !self.state.is_terminal()
    }

    /// Those who are neither owner nor assignee.
    pub fn others(&self) -> impl Iterator<Item = &Aid> {
        self.participants.iter().filter(|aid| **aid != self.owner && **aid != self.assignee)
    }

    /// The domains of those who take part, other than the one that the task is in.
    pub fn other_domains(&self, home: &str) -> BTreeSet<&str> {
        self.participants.iter().map(Aid::issuer).filter(|issuer| *issuer != home).collect()
    }

    pub fn as_child(&self) -> ChildTask {
        ChildTask {
            task_id: self.id.to_string(),
            assignee: self.assignee.to_string(),
            status: self.state.to_string(),
            required: self.required,
        }
    }

    pub fn summary(&self) -> TaskSummary {
        TaskSummary {
            task_id: self.id.to_string(),
            status: self.state.to_string(),
            version: self.version,
            owner: self.owner.to_string(),
            assignee: self.assignee.to_string(),
            parent_task_id: self.parent_id.as_ref().map(TaskId::to_string),
            required: self.required,
            title: self.title.clone(),
            visibility: self.visibility.as_str().to_owned(),
            created_at: kernel::iso(self.created_at),
            updated_at: kernel::iso(self.updated_at),
            remote: None,
            home_issuer: None,
        }
    }
}
