//! What never changes of a run, as it is stored.

use crate::error::Error;
use proto_schemas::requests::run::{ExecutionPolicy, RunSessionRef};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

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

/// What the server reads of a workspace; the other members are only kept.
#[derive(Deserialize)]
struct WorkspaceRef {
    root: Option<String>,
    path: Option<String>,
}

impl RunFixed {
    /// The configured folder that a run works in and the path below it, if it names one.
    pub fn workspace(&self) -> Result<Option<(String, String)>, Error> {
        workspace_of(&self.workspace_ref)
    }
}

pub(crate) fn workspace_of(workspace: &RawValue) -> Result<Option<(String, String)>, Error> {
    let read = serde_json::from_str::<WorkspaceRef>(workspace.get());
    let WorkspaceRef { root, path } =
        read.map_err(|_| Error::Invalid("workspaceRef.root and workspaceRef.path must be strings".to_owned()))?;
    let path = path.unwrap_or_default();
    let inside = path.is_empty() || path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if !inside || path.contains('\0') || path.contains('\\') {
        return Err(Error::Invalid(
            "workspaceRef.path must be a relative path without empty parts, '.' and '..'".to_owned(),
        ));
    }
    Ok(root.map(|root| (root, path)))
}
