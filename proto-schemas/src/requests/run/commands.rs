//! Commands of runs.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::TerminalStatus;
use crate::Request;

/// `run.command_create`: submit a command.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandCreate {
    pub run_id: String,
    #[serde(rename = "type")]
    pub kind: CommandType,
    pub payload: Box<RawValue>,
    pub idempotency_key: Option<String>,
}

impl Request for CommandCreate {
    const METHOD: &'static str = "run.command_create";
    type Result = CreatedCommand;
}

/// What a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandType {
    Turn,
    Steer,
    Interrupt,
}

/// A command, and whether this call has created it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreatedCommand {
    pub command: CommandRecord,
    pub created: bool,
}

/// Where a command stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandState {
    Pending,
    Acknowledged,
    Running,
    Completed,
    Failed,
    Blocked,
    Cancelled,
}

/// A command. Members without a value are `null`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandRecord {
    pub command_id: String,
    pub run_id: String,
    pub seq: i64,
    #[serde(rename = "type")]
    pub kind: CommandType,
    pub state: CommandState,
    pub payload: Box<RawValue>,
    pub payload_hash: String,
    pub idempotency_key: Option<String>,
    pub target_command_id: Option<String>,
    pub acknowledged_at: Option<String>,
    pub acknowledged_epoch: Option<i64>,
    pub terminal_status: Option<TerminalStatus>,
    pub failure_kind: Option<String>,
    pub failure_message: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    pub cancel_requested_at: Option<String>,
}

/// `run.command_get`: read a command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandGet {
    pub run_id: String,
    pub command_id: String,
}

impl Request for CommandGet {
    const METHOD: &'static str = "run.command_get";
    type Result = GotCommand;
}

/// One command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GotCommand {
    pub command: CommandRecord,
}

/// `run.command_cancel`: cancel a command.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandCancel {
    pub command_id: String,
    pub reason: Option<String>,
}

impl Request for CommandCancel {
    const METHOD: &'static str = "run.command_cancel";
    type Result = GotCommand;
}

/// `run.commands`: the commands of a run, newest first.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Commands {
    pub run_id: String,
    pub before_seq: Option<i64>,
    pub limit: Option<i64>,
}

impl Request for Commands {
    const METHOD: &'static str = "run.commands";
    type Result = RunCommandPage;
}

/// Some commands of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCommandPage {
    pub commands: Vec<CommandRecord>,
    pub has_more: bool,
}
