//! Calls of `runner`: what a runner asks of the manager. Only the HTTP routes open them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::run::{CommandRecord, GotCommand, RunApproval, RunEventType, RunLease, RunRecord, TerminalStatus};
use crate::Request;

/// `runner.register`: announce a runner.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Register {
    pub run_id: Option<String>,
    pub attempt_id: Option<String>,
    pub backend_profile: String,
    pub placement: RunnerPlacement,
    pub source_commit: Option<String>,
    pub job_name: Option<String>,
    pub pod_name: Option<String>,
    pub log_ref: Option<String>,
    pub capabilities: Option<Vec<String>>,
}

/// Where a runner runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunnerPlacement {
    #[default]
    HostProcess,
    KubernetesJob,
}

impl Request for Register {
    const METHOD: &'static str = "runner.register";
    type Result = RegisteredRunner;
}

/// A runner that the manager knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredRunner {
    pub runner_id: String,
    pub registered_at: String,
    pub heartbeat_interval_ms: i64,
}

/// `runner.claim`: take the lease of a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    pub run_id: String,
    pub runner_id: String,
    pub attempt_id: String,
    pub lease_ms: Option<i64>,
}

impl Request for Claim {
    const METHOD: &'static str = "runner.claim";
    type Result = ClaimedRun;
}

/// A run and its lease.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimedRun {
    pub run: RunRecord,
    pub lease: RunLease,
    /// Whether another runner had it, whose lease had expired.
    pub recovered: bool,
    /// What the last runner of the session said that the back end needs to go on with its thread.
    pub session_state: Option<Box<RawValue>>,
}

/// `runner.heartbeat`: renew or release the lease of a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    pub run_id: String,
    pub runner_id: String,
    pub epoch: i64,
    pub lease_ms: Option<i64>,
    pub release: Option<bool>,
}

impl Request for Heartbeat {
    const METHOD: &'static str = "runner.heartbeat";
    type Result = RenewedRunLease;
}

/// Whether a cancel was requested, and of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CancelScope {
    Run,
    Command,
}

/// A lease after a heartbeat.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewedRunLease {
    pub lease: Option<RunLease>,
    /// Of a release: whether the lease has ended.
    pub released: Option<bool>,
    /// Why it has not: so many commands wait.
    pub pending_commands: Option<i64>,
    pub cancel_requested: bool,
    pub cancel_scope: Option<CancelScope>,
    pub command_ids: Vec<String>,
    /// Questions that were answered, until their answer is in the log.
    pub approvals: Vec<RunApproval>,
}

/// `runner.poll_commands`: the commands to work on.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollCommands {
    pub run_id: String,
    pub runner_id: String,
    pub epoch: i64,
    pub after_seq: Option<i64>,
    pub limit: Option<i64>,
    pub wait_ms: Option<i64>,
}

impl Request for PollCommands {
    const METHOD: &'static str = "runner.poll_commands";
    type Result = PolledCommands;
}

/// Commands that have not ended, in their order.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolledCommands {
    pub commands: Vec<CommandRecord>,
    pub next_after_seq: i64,
    pub cancel_requested: bool,
    pub cancel_scope: Option<CancelScope>,
    pub command_ids: Vec<String>,
    pub approvals: Vec<RunApproval>,
}

/// `runner.append_events`: append events to the log of a run: a list, or one.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppendEvents {
    pub run_id: String,
    pub runner_id: String,
    pub epoch: i64,
    pub events: Option<Vec<NewRunEvent>>,
    pub client_event_id: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<RunEventType>,
    pub command_id: Option<String>,
    pub payload: Option<Box<RawValue>>,
    pub occurred_at: Option<String>,
}

/// An event as a runner sends it.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewRunEvent {
    pub client_event_id: String,
    #[serde(rename = "type")]
    pub kind: RunEventType,
    pub command_id: Option<String>,
    pub payload: Box<RawValue>,
    pub occurred_at: Option<String>,
}

impl Request for AppendEvents {
    const METHOD: &'static str = "runner.append_events";
    type Result = AppendedRunEvents;
}

/// The seqs of what was appended, now or before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppendedRunEvents {
    pub appended: Vec<AppendedRunEvent>,
    pub last_seq: i64,
}

/// The seq of an event, by the id that its runner gave it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppendedRunEvent {
    pub client_event_id: String,
    pub seq: i64,
}

/// `runner.acknowledge`: take a command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Acknowledge {
    pub command_id: String,
    pub runner_id: String,
    pub epoch: i64,
}

impl Request for Acknowledge {
    const METHOD: &'static str = "runner.acknowledge";
    type Result = GotCommand;
}

/// The kinds of failures with which a command or a run may end.
pub const TERMINAL_FAILURE_KINDS: [&str; 11] = [
    "schema-invalid",
    "tenant-policy-denied",
    "secret-unavailable",
    "backend-failed",
    "backend-timeout",
    "provider-auth-failed",
    "provider-unavailable",
    "infra-failed",
    "cancelled",
    "session-store-evicted",
    "thread-resume-failed",
];

/// What a runner says of a command or a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportedStatus {
    Running,
    Completed,
    Failed,
    Blocked,
    Cancelled,
}

impl ReportedStatus {
    /// `None`: it goes on.
    pub fn terminal(self) -> Option<TerminalStatus> {
        match self {
            ReportedStatus::Running => None,
            ReportedStatus::Completed => Some(TerminalStatus::Completed),
            ReportedStatus::Failed => Some(TerminalStatus::Failed),
            ReportedStatus::Blocked => Some(TerminalStatus::Blocked),
            ReportedStatus::Cancelled => Some(TerminalStatus::Cancelled),
        }
    }
}

/// `runner.set_command_status`: say that a command runs, or has ended.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetCommandStatus {
    pub command_id: String,
    pub runner_id: String,
    pub epoch: i64,
    pub status: ReportedStatus,
    pub failure_kind: Option<String>,
    pub failure_message: Option<String>,
    /// What the back end needs to go on with its thread; kept with the session.
    pub session_ref: Option<Box<RawValue>>,
}

impl Request for SetCommandStatus {
    const METHOD: &'static str = "runner.set_command_status";
    type Result = GotCommand;
}

/// `runner.set_run_status`: say that a run has ended.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetRunStatus {
    pub run_id: String,
    pub runner_id: String,
    pub epoch: i64,
    pub status: ReportedStatus,
    pub failure_kind: Option<String>,
    pub failure_message: Option<String>,
}

impl Request for SetRunStatus {
    const METHOD: &'static str = "runner.set_run_status";
    type Result = super::run::GotRun;
}
