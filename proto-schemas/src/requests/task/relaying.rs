//! What the domain of a task tells the domains of those who take part.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use crate::Request;

/// `task.relay_event`: tell another domain of tasks that its agents take part in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RelayEvent {
    pub items: Vec<RelayedTask>,
}

impl Request for RelayEvent {
    const METHOD: &'static str = "task.relay_event";
    type Result = RelayedEvents;
}

/// A task as it is at one version, and what happened when it got it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RelayedTask {
    pub task: RelayedSummary,
    pub agents: Vec<RelayedAgent>,
    pub events: Vec<RelayedTaskEvent>,
}

/// A task, in short, for another domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelayedSummary {
    pub task_id: String,
    pub root_task_id: String,
    pub parent_task_id: Option<String>,
    pub status: String,
    pub version: i64,
    pub owner: String,
    pub assignee: String,
    pub required: bool,
    pub title: String,
    pub visibility: String,
    pub created_at: String,
    pub updated_at: String,
}

/// An agent of the domain that is told, and its role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelayedAgent {
    pub aid: String,
    pub role: String,
}

/// An event of a task, for some agents of the domain that is told.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RelayedTaskEvent {
    pub event: String,
    pub params: Box<RawValue>,
    pub to: Vec<RelayedTarget>,
    pub except: Option<RelayedOrigin>,
}

/// An agent, or one device and slot of it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelayedTarget {
    pub aid: String,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
}

/// The device and slot whose call was the cause: it is not told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelayedOrigin {
    pub aid: String,
    pub device_id: String,
    pub slot_id: String,
}

/// What was not taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelayedEvents {
    pub unknown: Vec<UnknownAgent>,
    pub refused: Vec<String>,
}

/// An agent that is not registered in the domain that was told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnknownAgent {
    pub task_id: String,
    pub aid: String,
}
