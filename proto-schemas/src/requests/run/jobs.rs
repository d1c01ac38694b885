//! Runner jobs: the starts of runners.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Request;

/// `run.runner_job_create`: have a runner started for a command.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerJobCreate {
    pub run_id: String,
    pub command_id: String,
    pub idempotency_key: Option<String>,
    pub attempt_id: Option<String>,
    pub launcher: Option<LauncherKind>,
    pub idle_timeout_ms: Option<i64>,
    pub env: Option<BTreeMap<String, String>>,
}

impl Request for RunnerJobCreate {
    const METHOD: &'static str = "run.runner_job_create";
    type Result = CreatedRunnerJob;
}

/// What starts a runner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LauncherKind {
    Local,
    #[default]
    External,
    Kubernetes,
}

/// How the back end of a runner that the server starts is kept from the rest of its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunnerIsolation {
    /// It is a process of the user that the server runs as.
    None,
    /// Bubblewrap: it sees no other process and no data of the server, and writes only where it works.
    Bwrap,
}

/// A runner job, and whether this call has created it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedRunnerJob {
    pub runner_job: RunnerJob,
    pub created: bool,
}

/// How a runner job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunnerJobPhase {
    Creating,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

/// The start of a runner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerJob {
    pub runner_job_id: String,
    pub run_id: String,
    pub command_id: String,
    pub attempt_id: String,
    pub runner_id: Option<String>,
    pub launcher: LauncherKind,
    pub job_name: String,
    pub namespace: String,
    pub pod_name: Option<String>,
    pub pid: Option<i64>,
    /// With the launcher local.
    pub isolation: Option<RunnerIsolation>,
    pub log_ref: String,
    pub phase: RunnerJobPhase,
    pub idle_timeout_ms: i64,
    pub created_at: String,
    pub poll: RunnerJobPoll,
    /// Shown once, where the caller starts the runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_token: Option<String>,
    /// The base URL of the manager, beside the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
}

/// Where to read on, as relative URLs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerJobPoll {
    pub run: String,
    pub command: String,
    pub events: String,
    pub result: String,
    pub runner_job: String,
}

/// `run.runner_jobs`: the runner jobs of a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerJobs {
    pub run_id: String,
    pub command_id: Option<String>,
}

impl Request for RunnerJobs {
    const METHOD: &'static str = "run.runner_jobs";
    type Result = RunnerJobList;
}

/// Runner jobs of a run, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerJobList {
    pub runner_jobs: Vec<RunnerJob>,
}

/// `run.runner_job_get`: read a runner job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerJobGet {
    pub run_id: String,
    pub runner_job_id: String,
}

impl Request for RunnerJobGet {
    const METHOD: &'static str = "run.runner_job_get";
    type Result = GotRunnerJob;
}

/// One runner job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GotRunnerJob {
    pub runner_job: RunnerJob,
}
