//! The words of `task`: ids, texts of limited length, and what is one of a few.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::{Aid, LimitedText};

pub type RequestId = LimitedText<1, 64>;
pub type IdempotencyKey = LimitedText<1, 128>;
pub type InputId = LimitedText<1, 128>;
pub type TaskTitle = LimitedText<0, 256>;
pub type TaskReason = LimitedText<0, 1024>;

const MOST_CHARS: usize = 80;

/// The id of a task. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct TaskId(Arc<str>);

impl TaskId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TaskId {
    type Error = String;

    fn try_from(text: String) -> Result<TaskId, String> {
        text.parse()
    }
}

impl FromStr for TaskId {
    type Err = String;

    fn from_str(text: &str) -> Result<TaskId, String> {
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
pub enum TaskVisibility {
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

/// What an agent is in a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskRole {
    Owner,
    Assignee,
    /// Neither of the two.
    Participant,
}

impl TaskRole {
    pub const ALL: [TaskRole; 3] = [TaskRole::Owner, TaskRole::Assignee, TaskRole::Participant];

    pub fn as_str(self) -> &'static str {
        match self {
            TaskRole::Owner => "owner",
            TaskRole::Assignee => "assignee",
            TaskRole::Participant => "participant",
        }
    }

    pub fn parse(text: &str) -> Option<TaskRole> {
        TaskRole::ALL.into_iter().find(|role| role.as_str() == text)
    }

    /// What an agent is in a task that it takes part in.
    pub fn of(aid: &Aid, owner: &Aid, assignee: &Aid) -> TaskRole {
        match aid {
            aid if aid == owner => TaskRole::Owner,
            aid if aid == assignee => TaskRole::Assignee,
            _ => TaskRole::Participant,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_short_and_has_no_spaces() {
        for good in ["task_0190163d-868b-7ce2-a5f1-c1b6d0b3a7e4", "x", &"a".repeat(80)] {
            assert_eq!(good.parse::<TaskId>().unwrap().as_str(), good);
        }
        for bad in ["", " ", "a b", "a\u{0}", "ä", &"a".repeat(81)] {
            assert!(bad.parse::<TaskId>().is_err(), "{bad:?}");
        }
    }
}
