//! Runs themselves.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::{ExecutionPolicy, PolicyDraft};
use crate::Request;

/// `run.create`: create a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Create {
    pub tenant_id: String,
    pub project_id: String,
    /// An object; what is not known of it is kept and shown.
    pub workspace_ref: Box<RawValue>,
    pub provider_id: String,
    pub backend_profile: String,
    pub execution_policy: Option<PolicyDraft>,
    /// Has to be there: an object or `null`.
    pub trace_sink: Box<RawValue>,
    pub session_ref: Option<RunSessionRef>,
    pub resource_bundle_ref: Option<Box<RawValue>>,
    pub idempotency_key: Option<String>,
}

impl Request for Create {
    const METHOD: &'static str = "run.create";
    type Result = CreatedRun;
}

/// The session that a run belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSessionRef {
    pub session_id: String,
}

/// A run, and whether this call has created it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreatedRun {
    pub run: RunRecord,
    pub created: bool,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    Pending,
    Claimed,
    Running,
    Completed,
    Failed,
    Blocked,
    Cancelled,
}

/// How a run or a command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TerminalStatus {
    Completed,
    Failed,
    Blocked,
    Cancelled,
}

/// A run. Members without a value are `null`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    pub run_id: String,
    pub tenant_id: String,
    pub project_id: String,
    pub workspace_ref: Box<RawValue>,
    pub provider_id: String,
    pub backend_profile: String,
    pub execution_policy: ExecutionPolicy,
    pub trace_sink: Option<Box<RawValue>>,
    pub session_ref: Option<RunSessionRef>,
    pub resource_bundle_ref: Option<Box<RawValue>>,
    pub status: RunStatus,
    pub terminal_status: Option<TerminalStatus>,
    pub failure_kind: Option<String>,
    pub failure_message: Option<String>,
    pub lease: Option<RunLease>,
    pub last_seq: i64,
    pub created_at: String,
    pub updated_at: String,
    pub cancel_requested_at: Option<String>,
}

/// Which runner has a run, until when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunLease {
    pub runner_id: String,
    pub attempt_id: String,
    pub epoch: i64,
    pub expires_at: String,
}

/// `run.get`: read a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Get {
    pub run_id: String,
}

impl Request for Get {
    const METHOD: &'static str = "run.get";
    type Result = GotRun;
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GotRun {
    pub run: RunRecord,
}

/// `run.list`: the runs of a tenant, newest first.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct List {
    pub tenant_id: Option<String>,
    pub open: Option<bool>,
    pub cursor: Option<String>,
    pub limit: Option<i64>,
}

impl Request for List {
    const METHOD: &'static str = "run.list";
    type Result = RunPage;
}

/// Some runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPage {
    pub runs: Vec<RunRecord>,
    pub next_cursor: Option<String>,
}

/// `run.cancel`: cancel a run and its commands.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cancel {
    pub run_id: String,
    pub reason: Option<String>,
}

impl Request for Cancel {
    const METHOD: &'static str = "run.cancel";
    type Result = GotRun;
}

/// `run.backends`: what can work on a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Backends {}

impl Request for Backends {
    const METHOD: &'static str = "run.backends";
    type Result = BackendList;
}

/// What can work on a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackendList {
    pub backends: Vec<RunBackend>,
}

/// A profile as what works on runs, and what it can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunBackend {
    pub profile: String,
    pub backend_kind: String,
    pub builtin: bool,
    pub configured: bool,
    pub capabilities: Vec<String>,
}
