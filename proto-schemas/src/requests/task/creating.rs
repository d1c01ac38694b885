//! Giving tasks, and passing parts of them on.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::Request;

/// `task.create`: give an agent a task.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Create {
    pub to: String,
    pub input: Map<String, Value>,
    pub visibility: Option<String>,
    pub title: Option<String>,
    pub participants: Option<Vec<String>>,
    pub idempotency_key: Option<String>,
    pub accept_timeout_s: Option<i64>,
    pub metadata: Option<Map<String, Value>>,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delegate {
    pub task_id: String,
    pub to: String,
    pub input: Map<String, Value>,
    pub required: Option<bool>,
    pub visibility: Option<String>,
    pub idempotency_key: Option<String>,
    pub request_id: Option<String>,
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
