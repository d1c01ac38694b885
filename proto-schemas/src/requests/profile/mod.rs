//! Calls of `profile`: provider profiles, their credentials, which are written and never read, and whether they work.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::run::SecretRef;
use crate::Request;

/// `profile.list`: all profiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct List {}

impl Request for List {
    const METHOD: &'static str = "profile.list";
    type Result = ProfileList;
}

/// Profiles, by their names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProfileList {
    pub profiles: Vec<ProviderProfile>,
}

/// A provider profile. Members without a value are `null`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderProfile {
    pub profile: String,
    pub backend_kind: String,
    pub builtin: bool,
    pub configured: bool,
    pub failure_kind: Option<String>,
    pub secret_ref: Option<SecretRef>,
    pub resource_version: Option<i64>,
    pub hash_suffix: Option<String>,
    pub base_url: Option<String>,
    pub model: Option<String>,
    pub updated_at: Option<String>,
    pub last_validation: Option<ProfileValidation>,
}

/// Whether a profile worked when it was tried.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileValidation {
    pub validation_id: String,
    pub status: ValidationStatus,
    pub failure_kind: Option<String>,
    pub at: String,
}

/// Where a validation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValidationStatus {
    Running,
    Passed,
    Failed,
}

/// `profile.get`: read a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Get {
    pub profile: String,
}

impl Request for Get {
    const METHOD: &'static str = "profile.get";
    type Result = GotProfile;
}

/// One profile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GotProfile {
    pub profile: ProviderProfile,
}

/// `profile.set_credential`: store the credential of a profile.
#[skip_serializing_none]
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetCredential {
    pub profile: String,
    pub api_key: Option<String>,
    pub auth_json: Option<String>,
    pub config_toml: Option<String>,
    pub base_url: Option<String>,
    pub model: Option<String>,
}

impl std::fmt::Debug for SetCredential {
    /// Without what must not be printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetCredential").field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl Request for SetCredential {
    const METHOD: &'static str = "profile.set_credential";
    type Result = GotProfile;
}

/// `profile.delete`: remove the credential of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delete {
    pub profile: String,
}

impl Request for Delete {
    const METHOD: &'static str = "profile.delete";
    type Result = GotProfile;
}

/// `profile.validate`: try whether a profile works.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Validate {
    pub profile: String,
}

impl Request for Validate {
    const METHOD: &'static str = "profile.validate";
    type Result = BegunValidation;
}

/// A validation that has begun, and the run that it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BegunValidation {
    pub validation_id: String,
    pub profile: String,
    pub status: ValidationStatus,
    pub run_id: String,
    pub command_id: String,
    pub runner_job_id: String,
}

/// `profile.validation_get`: read a validation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValidationGet {
    pub profile: String,
    pub validation_id: String,
}

impl Request for ValidationGet {
    const METHOD: &'static str = "profile.validation_get";
    type Result = GotValidation;
}

/// One validation. Members without a value are `null`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GotValidation {
    pub validation_id: String,
    pub profile: String,
    pub status: ValidationStatus,
    pub failure_kind: Option<String>,
    pub run_id: String,
    pub command_id: String,
    pub runner_job_id: String,
    pub created_at: String,
    pub ended_at: Option<String>,
}
