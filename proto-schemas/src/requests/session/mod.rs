//! Calls of `session`: conversations over several runs, and what is stored for them.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::run::{Liveness, RunEventPage, RunnerJobPhase};
use crate::Request;

/// `session.create`: create a session and its storage.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Create {
    pub tenant_id: String,
    pub project_id: String,
    pub backend_profile: String,
    pub title: Option<String>,
    pub expires_in_ms: Option<i64>,
}

impl Request for Create {
    const METHOD: &'static str = "session.create";
    type Result = GotRunSession;
}

/// One session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GotRunSession {
    pub session: RunSessionRecord,
}

/// Whether a session has something running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionState {
    #[default]
    Idle,
    Running,
    Terminal,
}

/// Where the storage of a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StorageKind {
    #[default]
    None,
    Pvc,
    Evicted,
}

/// A session of runs. Members without a value are `null`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSessionRecord {
    pub session_id: String,
    pub tenant_id: String,
    pub project_id: String,
    pub backend_profile: String,
    pub execution_state: ExecutionState,
    pub version: i64,
    pub active_run_id: Option<String>,
    pub active_command_id: Option<String>,
    pub last_run_id: Option<String>,
    pub last_command_id: Option<String>,
    pub last_event_seq: i64,
    pub unread: bool,
    pub title: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    pub expires_at: String,
    pub storage_kind: StorageKind,
    pub storage_backend: String,
    pub storage_size_bytes: Option<i64>,
    pub storage_files_count: Option<i64>,
    pub storage_updated_at: Option<String>,
    pub storage_evicted_at: Option<String>,
    /// Where one session is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness: Option<Liveness>,
    /// The same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<RunSupervisor>,
}

/// Who works on the active or the last run of a session, in short. Members without a value are `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSupervisor {
    pub run_id: String,
    pub runner_job_id: Option<String>,
    pub job_phase: Option<RunnerJobPhase>,
    pub runner_id: Option<String>,
    pub attempt_id: Option<String>,
    pub lease_expires_at: Option<String>,
    pub lease_expired: Option<bool>,
    pub heartbeat_age_ms: Option<i64>,
    /// The words of what may help; the requests are those of the liveness.
    pub recovery: Vec<String>,
}

/// `session.list`: running and unread sessions, or all.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct List {
    pub state: Option<String>,
    pub reader_id: Option<String>,
    pub backend_profile: Option<String>,
    pub cursor: Option<String>,
    pub limit: Option<i64>,
}

impl Request for List {
    const METHOD: &'static str = "session.list";
    type Result = RunSessionPage;
}

/// Some sessions, newest change first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSessionPage {
    pub sessions: Vec<RunSessionRecord>,
    pub next_cursor: Option<String>,
}

/// `session.get`: read a session.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Get {
    pub session_id: String,
    pub reader_id: Option<String>,
}

impl Request for Get {
    const METHOD: &'static str = "session.get";
    type Result = GotRunSession;
}

/// `session.trace`: all events of a run of a session.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    pub session_id: String,
    pub run_id: Option<String>,
    pub after_seq: Option<i64>,
    pub limit: Option<i64>,
}

impl Request for Trace {
    const METHOD: &'static str = "session.trace";
    type Result = RunEventPage;
}

/// `session.output`: what a run of a session has said and printed.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    pub session_id: String,
    pub run_id: Option<String>,
    pub after_seq: Option<i64>,
    pub limit: Option<i64>,
}

impl Request for Output {
    const METHOD: &'static str = "session.output";
    type Result = RunEventPage;
}

/// `session.read`: move the cursor of a reader.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Read {
    pub session_id: String,
    pub reader_id: Option<String>,
    pub version: Option<i64>,
}

impl Request for Read {
    const METHOD: &'static str = "session.read";
    type Result = GotRunSession;
}

/// `session.control`: cancel what a session does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Control {
    pub session_id: String,
    pub action: String,
}

impl Request for Control {
    const METHOD: &'static str = "session.control";
    type Result = ControlledRunSession;
}

/// What was cancelled, if anything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ControlledRunSession {
    pub session: RunSessionRecord,
    /// `command`, `run` or `nothing`.
    pub cancelled: String,
}

/// `session.storage`: what is stored for a session, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    pub session_id: String,
}

impl Request for Storage {
    const METHOD: &'static str = "session.storage";
    type Result = RunSessionStorage;
}

/// What is stored for a session, in both spellings. Members without a value are `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSessionStorage {
    pub session_id: String,
    pub storage_kind: StorageKind,
    pub storage_backend: String,
    pub pvc_name: String,
    pub pvc_phase: String,
    pub storage_size_bytes: Option<i64>,
    pub storage_files_count: Option<i64>,
    pub storage_sha256: Option<String>,
    pub storage_updated_at: Option<String>,
    pub storage_evicted_at: Option<String>,
    #[serde(rename = "storage_kind")]
    pub kind_in_snake_case: StorageKind,
    #[serde(rename = "storage_size_bytes")]
    pub size_in_snake_case: Option<i64>,
    #[serde(rename = "storage_files_count")]
    pub files_in_snake_case: Option<i64>,
    #[serde(rename = "storage_sha256")]
    pub hash_in_snake_case: Option<String>,
    #[serde(rename = "storage_updated_at")]
    pub updated_in_snake_case: Option<String>,
    #[serde(rename = "storage_evicted_at")]
    pub evicted_in_snake_case: Option<String>,
}

/// `session.delete_storage`: remove what is stored for a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteStorage {
    pub session_id: String,
}

impl Request for DeleteStorage {
    const METHOD: &'static str = "session.delete_storage";
    type Result = RunSessionStorage;
}

/// `session.refresh_storage`: what the runner found stored.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefreshStorage {
    pub session_id: String,
    pub runner_id: String,
    pub epoch: i64,
    pub size_bytes: i64,
    pub files_count: i64,
    pub sha256: Option<String>,
}

impl Request for RefreshStorage {
    const METHOD: &'static str = "session.refresh_storage";
    type Result = RunSessionStorage;
}

/// `session.collect_storage`: remove the storage of expired sessions now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectStorage {}

impl Request for CollectStorage {
    const METHOD: &'static str = "session.collect_storage";
    type Result = CollectedStorage;
}

/// How many sessions have lost their storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectedStorage {
    pub evicted: i64,
}
