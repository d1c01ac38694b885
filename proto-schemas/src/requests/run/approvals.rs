//! Questions of back ends, and their answers.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use crate::Request;

/// `run.approvals`: the open questions of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approvals {
    pub run_id: String,
}

impl Request for Approvals {
    const METHOD: &'static str = "run.approvals";
    type Result = RunApprovalList;
}

/// Questions, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunApprovalList {
    pub approvals: Vec<RunApproval>,
}

/// A question of a back end. Members without a value are `null`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunApproval {
    pub approval_id: String,
    pub run_id: String,
    pub command_id: Option<String>,
    pub reason: String,
    pub message: Option<String>,
    pub call_id: Option<String>,
    pub response_schema: Option<Box<RawValue>>,
    pub options: Vec<String>,
    pub decision: Option<String>,
    pub payload: Option<Box<RawValue>>,
    /// Who answered: the tenant, or the AID.
    pub by: Option<String>,
    pub created_at: String,
    pub expires_at: Option<String>,
}

/// `run.approve`: answer a question.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approve {
    pub run_id: String,
    pub approval_id: String,
    pub command_id: Option<String>,
    pub decision: String,
    pub payload: Option<Box<RawValue>>,
}

impl Request for Approve {
    const METHOD: &'static str = "run.approve";
    type Result = AnsweredApproval;
}

/// A question as it was answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnsweredApproval {
    pub approval: RunApproval,
}
