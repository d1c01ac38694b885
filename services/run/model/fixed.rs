//! What never changes of a run.

use proto_schemas::requests::run::{ExecutionPolicy, RunSessionRef};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What a run was created with, as one JSON text. The policy is complete.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunFixed {
    pub project_id: String,
    pub workspace_ref: Box<RawValue>,
    pub provider_id: String,
    pub backend_profile: String,
    pub execution_policy: ExecutionPolicy,
    pub trace_sink: Option<Box<RawValue>>,
    pub session_ref: Option<RunSessionRef>,
    pub resource_bundle_ref: Option<Box<RawValue>>,
}
