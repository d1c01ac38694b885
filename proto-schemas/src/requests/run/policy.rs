//! What the commands of a run may do, from most to least careful.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// What the back end may do to files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sandbox {
    ReadOnly,
    #[default]
    WorkspaceWrite,
    DangerFullAccess,
}

/// When the back end asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalMode {
    Untrusted,
    OnRequest,
    #[default]
    Never,
}

/// Whether the back end reaches a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkAccess {
    Disabled,
    #[default]
    Enabled,
}

/// A policy as a caller writes it: the manager completes what is left out.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDraft {
    pub sandbox: Option<Sandbox>,
    pub approval: Option<ApprovalMode>,
    pub timeout_ms: Option<i64>,
    pub network: Option<NetworkAccess>,
    pub secret_scope: Option<SecretScope>,
}

/// A complete policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionPolicy {
    pub sandbox: Sandbox,
    pub approval: ApprovalMode,
    pub timeout_ms: i64,
    pub network: NetworkAccess,
    pub secret_scope: SecretScope,
}

/// The secrets that the back end gets, by reference.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretScope {
    pub allow_credential_echo: Option<bool>,
    pub provider_credentials: Option<Vec<ProviderCredential>>,
    pub tool_credentials: Option<Vec<ToolCredential>>,
}

/// The credential of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderCredential {
    pub profile: String,
    pub secret_ref: SecretRef,
}

/// The credential of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCredential {
    pub tool: String,
    pub secret_ref: SecretRef,
}

/// The name of a secret, and which of its keys are meant. Never a value.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SecretRef {
    pub name: String,
    pub namespace: Option<String>,
    pub keys: Option<Vec<String>>,
}
