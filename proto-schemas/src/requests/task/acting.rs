//! What the owner and the assignee of a task do.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::{ChildTask, InputId, RequestId, TaskId, TaskReason};
use crate::{LimitedText, Request};

/// `task.accept`: accept a task.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Accept {
    pub task_id: TaskId,
    pub request_id: Option<RequestId>,
    pub expected_version: Option<i64>,
}

impl Request for Accept {
    const METHOD: &'static str = "task.accept";
    type Result = ChangedTask;
}

/// A task and its status now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangedTask {
    pub task_id: String,
    pub status: String,
}

/// `task.reject`: refuse a task.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reject {
    pub task_id: TaskId,
    pub reason: Option<TaskReason>,
    pub request_id: Option<RequestId>,
    pub expected_version: Option<i64>,
}

impl Request for Reject {
    const METHOD: &'static str = "task.reject";
    type Result = ChangedTask;
}

/// `task.send_input`: add to what was said about a task.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SendInput {
    pub task_id: TaskId,
    /// A content block.
    pub input: Box<RawValue>,
    pub input_id: Option<InputId>,
    pub require_input: Option<bool>,
    pub request_id: Option<RequestId>,
    pub expected_version: Option<i64>,
}

impl Request for SendInput {
    const METHOD: &'static str = "task.send_input";
    type Result = TaskInput;
}

/// A task about which something was said, and its status now.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskInput {
    pub task_id: String,
    pub status: String,
    pub duplicate: Option<bool>,
}

/// `task.request_input`: ask the owner of a task for input.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestInput {
    pub task_id: TaskId,
    /// A content block.
    pub message: Box<RawValue>,
    pub request_id: Option<RequestId>,
    pub expected_version: Option<i64>,
}

impl Request for RequestInput {
    const METHOD: &'static str = "task.request_input";
    type Result = ChangedTask;
}

/// A result of a task, as it is handed in.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewArtifact {
    pub id: LimitedText<1, 128>,
    #[serde(rename = "type")]
    pub kind: LimitedText<1, 64>,
    pub name: Option<LimitedText<0, 256>>,
    pub mime_type: Option<LimitedText<0, 128>>,
    pub content: Option<Box<RawValue>>,
    #[serde(rename = "ref")]
    pub reference: Option<Box<RawValue>>,
    pub size_bytes: Option<i64>,
    pub sha256: Option<String>,
}

/// `task.add_artifact`: add a result to a task that goes on.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AddArtifact {
    pub task_id: TaskId,
    pub artifact: NewArtifact,
    pub request_id: Option<RequestId>,
    pub expected_version: Option<i64>,
}

impl Request for AddArtifact {
    const METHOD: &'static str = "task.add_artifact";
    type Result = AddedArtifact;
}

/// Where an artifact is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AddedArtifact {
    pub task_id: String,
    pub artifact_id: String,
    pub version: i64,
}

/// `task.complete`: end a task well.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Complete {
    pub task_id: TaskId,
    pub artifacts: Option<Vec<NewArtifact>>,
    pub request_id: Option<RequestId>,
    pub expected_version: Option<i64>,
}

impl Request for Complete {
    const METHOD: &'static str = "task.complete";
    type Result = CompletedTask;
}

/// A task that is completed, and which required parts of it did not end well.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompletedTask {
    pub task_id: String,
    pub status: String,
    pub unsuccessful_children: Option<Vec<ChildTask>>,
}

/// `task.fail`: end a task that cannot be done.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fail {
    pub task_id: TaskId,
    pub reason: Option<TaskReason>,
    pub request_id: Option<RequestId>,
    pub expected_version: Option<i64>,
}

impl Request for Fail {
    const METHOD: &'static str = "task.fail";
    type Result = ChangedTask;
}

/// `task.cancel`: end a task that is not wanted any more.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cancel {
    pub task_id: TaskId,
    pub reason: Option<TaskReason>,
    pub request_id: Option<RequestId>,
    pub expected_version: Option<i64>,
}

impl Request for Cancel {
    const METHOD: &'static str = "task.cancel";
    type Result = ChangedTask;
}
