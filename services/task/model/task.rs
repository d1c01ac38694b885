//! A task as it is stored, without what was said and what came out.

use super::state::TaskState;
use kernel::Aid;
use proto_schemas::requests::task::{ChildTask, TaskSummary};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

const MOST_CHARS: usize = 80;

/// The id of a task.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct TaskId(Arc<str>);

impl TaskId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TaskId {
    type Error = String;

    fn try_from(text: String) -> Result<TaskId, String> {
        let fine = !text.is_empty() && text.len() <= MOST_CHARS && text.bytes().all(|b| b.is_ascii_graphic());
        if fine {
            return Ok(TaskId(text.into()));
        }
        Err(format!("the id of a task has 1 to {MOST_CHARS} characters without spaces"))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Who may read a task. In the order of how many may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TaskVisibility {
    /// Its owner, assignee and participants.
    Private,
    /// Those of every task of the same tree.
    Shared,
    /// Every agent.
    Public,
}

impl TaskVisibility {
    pub const ALL: [TaskVisibility; 3] =
        [TaskVisibility::Private, TaskVisibility::Shared, TaskVisibility::Public];

    pub fn parse(text: &str) -> Option<TaskVisibility> {
        TaskVisibility::ALL.into_iter().find(|visibility| visibility.as_str() == text)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            TaskVisibility::Private => "private",
            TaskVisibility::Shared => "shared",
            TaskVisibility::Public => "public",
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_short_and_has_no_spaces() {
        for good in ["task_0190163d-868b-7ce2-a5f1-c1b6d0b3a7e4", "x", &"a".repeat(80)] {
            assert_eq!(TaskId::try_from(good.to_owned()).unwrap().as_str(), good);
        }
        for bad in ["", " ", "a b", "a\u{0}", "ä", &"a".repeat(81)] {
            assert!(TaskId::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}
