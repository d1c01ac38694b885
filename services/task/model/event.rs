//! What others are told of a change, and who hears it without having asked.

use super::access::TaskReaders;
use super::state::TaskState;
use super::task::TaskRow;
use kernel::Aid;
use proto_schemas::requests::task::{ChildTask, TaskArtifact, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Who has changed a task where that was the server itself.
pub(crate) const SYSTEM: &str = "system";
/// A content of more bytes is left out of events.
pub(crate) const EVENT_CONTENT_BYTES: i64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskEventName {
    Updated,
    Completed,
    Failed,
    Artifact,
    Delegated,
}

impl TaskEventName {
    pub const ALL: [TaskEventName; 5] = [
        TaskEventName::Updated,
        TaskEventName::Completed,
        TaskEventName::Failed,
        TaskEventName::Artifact,
        TaskEventName::Delegated,
    ];

    /// As `task.subscribe` names it.
    pub fn short(self) -> &'static str {
        match self {
            TaskEventName::Updated => "updated",
            TaskEventName::Completed => "completed",
            TaskEventName::Failed => "failed",
            TaskEventName::Artifact => "artifact",
            TaskEventName::Delegated => "delegated",
        }
    }

    pub fn method(self) -> &'static str {
        match self {
            TaskEventName::Updated => "event/task.updated",
            TaskEventName::Completed => "event/task.completed",
            TaskEventName::Failed => "event/task.failed",
            TaskEventName::Artifact => "event/task.artifact",
            TaskEventName::Delegated => "event/task.delegated",
        }
    }

    pub fn from_short(text: &str) -> Option<TaskEventName> {
        TaskEventName::ALL.into_iter().find(|name| name.short() == text)
    }

    /// One bit of the set of events that a subscription is for.
    pub fn bit(self) -> i64 {
        1 << TaskEventName::ALL.iter().position(|name| *name == self).unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct TaskEvent {
    pub name: TaskEventName,
    pub task_id: TaskId,
    pub params: TaskEventParams,
    pub owner: Aid,
    /// Where it hears of this without having subscribed.
    pub assignee: Option<Aid>,
    pub readers: TaskReaders,
    /// The task as it is after this, where agents of other domains take part.
    pub relayed: Option<Box<TaskRow>>,
}

/// The parameters of all events; each has some of the last ones.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TaskEventParams {
    pub task_id: TaskId,
    pub status: TaskState,
    pub version: i64,
    pub updated_at: String,
    pub actor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<TaskArtifact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<TaskArtifact>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsuccessful_children: Option<Vec<ChildTask>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_task_id: Option<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignee: Option<Aid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

/// What an event says beside what all of them say.
#[derive(Debug)]
pub(super) enum EventDetail {
    Updated { message: Option<Box<RawValue>> },
    Completed { artifacts: Vec<TaskArtifact>, unsuccessful_children: Vec<ChildTask> },
    Failed,
    Artifact(TaskArtifact),
    Delegated { child_task_id: TaskId, assignee: Aid, required: bool },
}

impl EventDetail {
    pub fn name(&self) -> TaskEventName {
        match self {
            EventDetail::Updated { .. } => TaskEventName::Updated,
            EventDetail::Completed { .. } => TaskEventName::Completed,
            EventDetail::Failed => TaskEventName::Failed,
            EventDetail::Artifact(_) => TaskEventName::Artifact,
            EventDetail::Delegated { .. } => TaskEventName::Delegated,
        }
    }

    /// The assignee hears of new tasks, of what is asked and said, and of an end that it has not brought about itself. Otherwise it
    /// would not learn that there is work, nor that it should stop.
    pub fn is_for_assignee(&self, state: TaskState, by_system: bool) -> bool {
        match self {
            EventDetail::Updated { message } => {
                message.is_some() || matches!(state, TaskState::Submitted | TaskState::Canceled)
            }
            EventDetail::Failed => by_system,
            EventDetail::Completed { .. } | EventDetail::Artifact(_) | EventDetail::Delegated { .. } => false,
        }
    }

    pub fn fill(self, params: TaskEventParams) -> TaskEventParams {
        match self {
            EventDetail::Updated { message } => TaskEventParams { message, ..params },
            EventDetail::Completed { artifacts, unsuccessful_children } => TaskEventParams {
                artifacts: Some(artifacts),
                unsuccessful_children: Some(unsuccessful_children),
                ..params
            },
            EventDetail::Failed => params,
            EventDetail::Artifact(artifact) => TaskEventParams { artifact: Some(artifact), ..params },
            EventDetail::Delegated { child_task_id, assignee, required } => TaskEventParams {
                child_task_id: Some(child_task_id),
                assignee: Some(assignee),
                required: Some(required),
                ..params
            },
        }
    }
}
