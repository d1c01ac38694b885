//! What came out of a run or of a command, from its events.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::TerminalStatus;
use crate::Request;

/// `run.result`: what came out of a command of a run, by default of the newest.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Result {
    pub run_id: String,
    pub command_id: Option<String>,
}

impl Request for Result {
    const METHOD: &'static str = "run.result";
    type Result = RunResult;
}

/// `run.command_result`: what came out of one command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandResult {
    pub run_id: String,
    pub command_id: String,
}

impl Request for CommandResult {
    const METHOD: &'static str = "run.command_result";
    type Result = RunResult;
}

/// The result envelope. Members without a value are `null`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    pub run_id: String,
    pub command_id: Option<String>,
    pub attempt_id: Option<String>,
    /// Of the command, or of the run where it has none.
    pub status: String,
    pub terminal_status: Option<TerminalStatus>,
    pub terminal_source: TerminalSource,
    pub completed: bool,
    pub reply: Option<String>,
    pub final_response: Option<FinalResponse>,
    pub final_assistant_seq: Option<i64>,
    pub final_assistant_source: Option<FinalSource>,
    pub final_assistant_text_truncated: bool,
    pub final_assistant_output_truncated: bool,
    pub failure_kind: Option<String>,
    pub failure_message: Option<String>,
    pub blocker: Option<RunBlocker>,
    pub last_seq: i64,
    pub event_count: i64,
    pub events_capped: bool,
    pub next_after_seq: i64,
    pub scoped_last_seq: i64,
    pub scoped_event_count: i64,
    pub artifact_summary: ArtifactSummary,
    pub tool_call_summary: ToolCallSummary,
    pub liveness: Liveness,
    /// Of a command of the type `steer` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer_delivery: Option<SteerDelivery>,
}

/// What says that it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminalSource {
    #[serde(rename = "command-record")]
    CommandRecord,
    #[serde(rename = "terminal_status-event")]
    Event,
    #[serde(rename = "run-record")]
    RunRecord,
    #[serde(rename = "none")]
    Nothing,
}

/// The message that was chosen as the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FinalResponse {
    pub text: String,
    pub seq: i64,
    pub source: FinalSource,
    #[serde(rename = "final")]
    pub is_final: bool,
    pub reply_authority: bool,
    pub text_truncated: bool,
    pub output_truncated: bool,
}

/// Whether the back end called it its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinalSource {
    Authoritative,
    FallbackLastAssistant,
}

/// Why something did not complete.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunBlocker {
    pub failure_kind: String,
    pub message: Option<String>,
}

/// What was written to the outputs of commands of the back end, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactSummary {
    pub output_count: i64,
    pub output_bytes: i64,
    pub output_truncated: bool,
    pub diff_count: i64,
    /// The seqs of the events that have them: at most the last 20.
    pub seqs: Vec<i64>,
}

/// How the tools of the back end did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallSummary {
    pub count: i64,
    pub status_counts: BTreeMap<String, i64>,
    pub exit_code_counts: BTreeMap<String, i64>,
    pub items: Vec<ToolCallItem>,
}

/// A call of a tool by the back end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallItem {
    pub call_id: Option<String>,
    pub method: Option<String>,
    pub tool_name: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub status: Option<String>,
    pub exit_code: Option<i64>,
    pub command: Option<String>,
}

/// Whether something is going on, as it is seen at this moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Liveness {
    pub phase: LivenessPhase,
    pub active: bool,
    pub last_seq: i64,
    pub last_event_at: Option<String>,
    pub last_event_age_ms: Option<i64>,
    /// When the command was last heard of.
    pub last_command_activity: Option<String>,
    pub lease: Option<LivenessLease>,
    pub heartbeat_age_ms: Option<i64>,
    pub recovery: Vec<RecoveryAction>,
}

/// What a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LivenessPhase {
    Terminal,
    WaitingRunner,
    RunnerHeartbeatStale,
    TransportDisconnected,
    WaitingApproval,
    WaitingTool,
    IdleAfterTool,
    WaitingModel,
}

/// The lease of a run, as liveness shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LivenessLease {
    pub runner_id: String,
    pub expires_at: String,
    pub expired: bool,
}

/// What may help: a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryAction {
    pub action: String,
    pub method: String,
    pub path: String,
}

/// What became of guidance for a running turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SteerDelivery {
    pub runner_acked: bool,
    pub backend_accepted: bool,
    pub target_command_id: Option<String>,
    pub target_activity_observed: bool,
    pub note: String,
}
