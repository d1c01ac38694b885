//! Tokens of tenants, of administrators and of runners.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::requests::meta::ServiceAccounts;
use crate::{Aid, Request, ServiceToken};

/// `run.token_create`: make a token.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenCreate {
    pub tenant_id: Option<String>,
    pub admin: Option<bool>,
}

impl Request for TokenCreate {
    const METHOD: &'static str = "run.token_create";
    type Result = CreatedRunToken;
}

/// A token, shown once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CreatedRunToken {
    pub token: String,
    /// With which it can be withdrawn.
    pub prefix: String,
}

/// `run.token_revoke`: withdraw the tokens that begin so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenRevoke {
    pub prefix: String,
}

impl Request for TokenRevoke {
    const METHOD: &'static str = "run.token_revoke";
    type Result = RevokedRunTokens;
}

/// How many tokens were withdrawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RevokedRunTokens {
    pub revoked: i64,
}

/// `run.tokens`: the tokens of tenants and administrators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tokens {}

impl Request for Tokens {
    const METHOD: &'static str = "run.tokens";
    type Result = RunTokenList;
}

/// Tokens, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunTokenList {
    pub tokens: Vec<RunToken>,
}

/// A token without what would let somebody use it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunToken {
    pub prefix: String,
    pub kind: String,
    pub tenant_id: Option<String>,
    pub created_at: String,
    pub revoked_at: Option<String>,
}

/// `run.verify_token`: get the owner of a token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyToken {
    pub token: String,
}

impl Request for VerifyToken {
    const METHOD: &'static str = "run.verify_token";
    type Result = ServiceToken;
}

/// `run.account`: what run keeps for tenants.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    pub aid: Option<Aid>,
    pub bytes: Option<i64>,
    pub rows: Option<i64>,
    pub recount: Option<bool>,
}

impl Request for Account {
    const METHOD: &'static str = "run.account";
    type Result = ServiceAccounts;
}
