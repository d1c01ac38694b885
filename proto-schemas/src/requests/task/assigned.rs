//! What the service asks that works on the tasks of some agents.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::TaskId;
use crate::{Aid, Request, Signal};

/// `task.assigned`: list the open tasks that some agents were given.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assigned {
    pub aids: Vec<Aid>,
    pub after: Option<TaskId>,
    pub limit: Option<i64>,
}

impl Request for Assigned {
    const METHOD: &'static str = "task.assigned";
    type Result = AssignedTasks;
}

/// A page of open tasks, in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssignedTasks {
    pub tasks: Vec<AssignedTask>,
    pub has_more: bool,
}

/// An open task, as far as its assignee has to know whether there is something new.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssignedTask {
    pub task_id: TaskId,
    pub assignee: Aid,
    pub status: String,
    pub version: i64,
    /// The domain where it is stored, if that is another one.
    pub home_issuer: Option<String>,
}

/// `task.act`: call a method as the assignee of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Act {
    pub aid: Aid,
    pub method: String,
    /// The parameters of the method.
    pub params: Box<RawValue>,
}

impl Request for Act {
    const METHOD: &'static str = "task.act";
    type Result = ActResult;
}

/// The result of the method.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ActResult {
    pub result: Box<RawValue>,
}

/// `task.assigned_changed`: some tasks of these agents changed, which somebody asks for who works on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssignedTasksChanged {
    pub aids: Vec<Aid>,
}

impl Signal for AssignedTasksChanged {
    const NAME: &'static str = "task.assigned_changed";
}
