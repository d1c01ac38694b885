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
    /// Whether the server itself has named the credential, which it has to have then. One that the caller names may be where its runner is.
    #[serde(default)]
    pub credential_is_own: bool,
}

/// What the server reads of a workspace, which was checked before it was stored.
#[derive(Deserialize, Default)]
#[serde(default)]
struct NamedFolder {
    root: Option<String>,
    path: Option<String>,
}

impl RunFixed {
    /// The configured folder that a run works in, and the path below it, if it names one.
    pub fn folder(&self) -> Option<(String, String)> {
        let folder: NamedFolder = serde_json::from_str(self.workspace_ref.get()).unwrap_or_default();
        Some((folder.root?, folder.path.unwrap_or_default()))
    }
}
