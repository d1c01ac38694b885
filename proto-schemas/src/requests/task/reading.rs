//! Reading tasks.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::{TaskId, TaskRole};
use crate::{Aid, Request};

/// `task.get`: read a task.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Get {
    pub task_id: TaskId,
    pub messages_after_seq: Option<i64>,
}

impl Request for Get {
    const METHOD: &'static str = "task.get";
    type Result = TaskObject;
}

/// Everything about a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskObject {
    pub task_id: String,
    pub root_task_id: String,
    pub parent_task_id: Option<String>,
    pub depth: i64,
    pub status: String,
    pub version: i64,
    pub owner: String,
    pub assignee: String,
    pub participants: Vec<String>,
    pub visibility: String,
    pub required: bool,
    pub title: String,
    pub input: Box<RawValue>,
    pub artifacts: Vec<TaskArtifact>,
    pub messages: Vec<TaskMessage>,
    pub messages_truncated: bool,
    pub children: Vec<ChildTask>,
    pub reason: Option<String>,
    pub metadata: Option<Box<RawValue>>,
    pub created_at: String,
    pub updated_at: String,
    pub accepted_at: Option<String>,
    pub ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_removed: Option<bool>,
    pub home_issuer: String,
}

/// What somebody said about a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskMessage {
    pub seq: i64,
    pub id: String,
    pub from: String,
    pub kind: String,
    pub body: Box<RawValue>,
    pub created_at: String,
}

/// A result of a task, as it is stored.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskArtifact {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub name: Option<String>,
    pub mime_type: Option<String>,
    pub content: Option<Box<RawValue>>,
    #[serde(rename = "ref")]
    pub reference: Option<Box<RawValue>>,
    pub size_bytes: Option<i64>,
    pub sha256: Option<String>,
    pub created_by: String,
    pub created_at: String,
}

/// A task that was delegated, in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildTask {
    pub task_id: String,
    pub assignee: String,
    pub status: String,
    pub required: bool,
}

/// `task.children`: list what was delegated from a task.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Children {
    pub task_id: TaskId,
    pub recursive: Option<bool>,
}

impl Request for Children {
    const METHOD: &'static str = "task.children";
    type Result = TaskChildren;
}

/// What was delegated from a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskChildren {
    pub task_id: String,
    pub children: Vec<TaskSummary>,
    pub count: i64,
}

/// A task, in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskSummary {
    pub task_id: String,
    pub status: String,
    pub version: i64,
    pub owner: String,
    pub assignee: String,
    pub parent_task_id: Option<String>,
    pub required: bool,
    pub title: String,
    pub visibility: String,
    pub created_at: String,
    pub updated_at: String,
    /// Both only where the task is in another domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home_issuer: Option<String>,
}

/// `task.list`: list the tasks of the caller.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct List {
    pub status: Option<StatusFilter>,
    pub limit: Option<i64>,
    pub cursor: Option<String>,
    pub role: Option<TaskRole>,
    pub peer: Option<Aid>,
    pub parent_task_id: Option<TaskId>,
}

impl Request for List {
    const METHOD: &'static str = "task.list";
    type Result = TaskPage;
}

/// One status, or a list of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StatusFilter {
    One(String),
    Several(Vec<String>),
}

/// A page of tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskPage {
    pub items: Vec<TaskSummary>,
    pub next_cursor: Option<String>,
    pub has_more: bool,
}
