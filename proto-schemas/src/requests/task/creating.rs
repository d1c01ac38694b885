//! Giving tasks, and passing parts of them on.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::{IdempotencyKey, RequestId, TaskId, TaskTitle, TaskVisibility};
use crate::{Aid, Request};

/// `task.create`: give an agent a task.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Create {
    pub to: Aid,
    /// A content block.
    pub input: Box<RawValue>,
    pub visibility: Option<TaskVisibility>,
    pub title: Option<TaskTitle>,
    pub participants: Option<Vec<Aid>>,
    pub idempotency_key: Option<IdempotencyKey>,
    pub accept_timeout_s: Option<i64>,
    pub metadata: Option<Box<RawValue>>,
}

impl Request for Create {
    const METHOD: &'static str = "task.create";
    type Result = CreatedTask;
}

/// A task that was made.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CreatedTask {
    pub task_id: String,
    pub status: String,
    pub owner: String,
    pub assignee: String,
    pub created_at: String,
    pub duplicate: Option<bool>,
}

/// `task.delegate`: pass a part of a task on to another agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delegate {
    pub task_id: TaskId,
    pub to: Aid,
    /// A content block.
    pub input: Box<RawValue>,
    pub required: Option<bool>,
    pub visibility: Option<TaskVisibility>,
    pub idempotency_key: Option<IdempotencyKey>,
    pub request_id: Option<RequestId>,
    pub expected_version: Option<i64>,
}

impl Request for Delegate {
    const METHOD: &'static str = "task.delegate";
    type Result = DelegatedTask;
}

/// A task that was made below another one.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DelegatedTask {
    pub task_id: String,
    pub parent_task_id: String,
    pub status: String,
    pub assignee: String,
    pub duplicate: Option<bool>,
}
