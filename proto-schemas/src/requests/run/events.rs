//! The log of a run.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use crate::Request;

/// `run.events`: a page of the events of a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Events {
    pub run_id: String,
    pub after_seq: Option<i64>,
    pub limit: Option<i64>,
}

impl Request for Events {
    const METHOD: &'static str = "run.events";
    type Result = RunEventPage;
}

/// Some events of a run, in their order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunEventPage {
    pub events: Vec<RunEvent>,
    pub last_seq: i64,
    pub next_after_seq: i64,
    pub has_more: bool,
}

/// What happened in a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    pub event_id: String,
    pub run_id: String,
    pub seq: i64,
    #[serde(rename = "type")]
    pub kind: RunEventType,
    pub command_id: Option<String>,
    pub attempt_id: Option<String>,
    pub payload: Box<RawValue>,
    pub created_at: String,
}

/// The types of events. The set is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEventType {
    AssistantMessage,
    CommandOutput,
    ToolCall,
    Reasoning,
    Plan,
    Diff,
    BackendStatus,
    RunnerStatus,
    SteerDelivery,
    ApprovalRequest,
    ApprovalResolved,
    Error,
    TerminalStatus,
}
