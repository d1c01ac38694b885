//! Relations of users with agents.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Request;

/// `h2a.grant`: begin a relation with an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    pub agent_id: String,
    /// No scopes where it is left out.
    pub granted_scopes: Option<Vec<String>>,
}

impl Request for Grant {
    const METHOD: &'static str = "h2a.grant";
    type Result = GrantedRelation;
}

/// What a user granted an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct H2aRelation {
    pub id: String,
    pub agent_id: String,
    pub agent_aid: String,
    pub user_id: String,
    pub status: String,
    pub granted_scopes: Vec<String>,
    pub granted_manifest_version: i64,
    pub reauth_required: bool,
    pub reauth_manifest_version: Option<i64>,
    pub reauth_scopes: Vec<String>,
    pub created_at: String,
    pub updated_at: String,
}

/// The relation, and whether it is new.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GrantedRelation {
    pub relation: H2aRelation,
    pub created: bool,
}

/// The relation as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CurrentRelation {
    pub relation: H2aRelation,
}

/// `h2a.get`: read a relation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Get {
    pub id: String,
}

impl Request for Get {
    const METHOD: &'static str = "h2a.get";
    type Result = CurrentRelation;
}

/// `h2a.list`: the relations of the caller, or of an agent of the caller.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct List {
    pub agent_id: Option<String>,
    pub status: Option<RelationStatus>,
    pub reauth_required: Option<bool>,
    pub cursor: Option<String>,
    pub limit: Option<i64>,
}

/// Whether a relation is in force.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RelationStatus {
    Active,
    Suspended,
    Revoked,
}

impl RelationStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            RelationStatus::Active => "active",
            RelationStatus::Suspended => "suspended",
            RelationStatus::Revoked => "revoked",
        }
    }
}

impl Request for List {
    const METHOD: &'static str = "h2a.list";
    type Result = RelationPage;
}

/// Relations, the oldest first.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelationPage {
    pub relations: Vec<H2aRelation>,
    pub next_cursor: Option<String>,
}

/// `h2a.update`: grant other scopes, or agree to a changed manifest.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Update {
    pub id: String,
    pub granted_scopes: Vec<String>,
    pub manifest_version: Option<i64>,
}

impl Request for Update {
    const METHOD: &'static str = "h2a.update";
    type Result = CurrentRelation;
}

/// `h2a.revoke`: end a relation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Revoke {
    pub id: String,
}

impl Request for Revoke {
    const METHOD: &'static str = "h2a.revoke";
    type Result = CurrentRelation;
}

/// `h2a.suspend`: the operator suspends a relation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Suspend {
    pub id: String,
}

impl Request for Suspend {
    const METHOD: &'static str = "h2a.suspend";
    type Result = CurrentRelation;
}

/// `h2a.restore`: the operator ends the suspension of a relation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Restore {
    pub id: String,
}

impl Request for Restore {
    const METHOD: &'static str = "h2a.restore";
    type Result = CurrentRelation;
}
