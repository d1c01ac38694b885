//! Hearing of what happens to tasks.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::TaskId;
use crate::Request;

/// `task.subscribe`: hear of what happens to tasks.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Subscribe {
    pub task_ids: Vec<TaskId>,
    pub events: Option<Vec<String>>,
}

impl Request for Subscribe {
    const METHOD: &'static str = "task.subscribe";
    type Result = SubscribedTasks;
}

/// The tasks whose events will come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubscribedTasks {
    pub subscribed: Vec<String>,
}

/// `task.unsubscribe`: do not hear of tasks any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unsubscribe {
    pub task_ids: Vec<TaskId>,
}

impl Request for Unsubscribe {
    const METHOD: &'static str = "task.unsubscribe";
    type Result = UnsubscribedTasks;
}

/// The tasks whose events will not come any more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnsubscribedTasks {
    pub unsubscribed: Vec<String>,
}
