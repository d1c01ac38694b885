//! Logging in, and the tokens that come of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::Request;

/// `auth.aid_login1`: begin a login: show the certificate, get a nonce to sign.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AidLogin1 {
    pub aid: String,
    pub cert: String,
    pub client_nonce: String,
}

impl Request for AidLogin1 {
    const METHOD: &'static str = "auth.aid_login1";
    type Result = LoginNonce;
}

/// What the agent signs, and the proof of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoginNonce {
    pub request_id: String,
    pub nonce: String,
    pub server_time: f64,
    pub client_nonce_signature: String,
    pub auth_cert: String,
    pub auth_curve: String,
}

/// `auth.aid_login2`: finish a login: sign the nonce, get tokens.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AidLogin2 {
    pub aid: String,
    pub request_id: String,
    pub nonce: String,
    pub client_time: String,
    pub signature: String,
    pub cert: Option<String>,
}

impl Request for AidLogin2 {
    const METHOD: &'static str = "auth.aid_login2";
    type Result = LoginTokens;
}

/// The tokens of a login.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoginTokens {
    pub status: String,
    pub aid: String,
    pub access_token: String,
    pub refresh_token: String,
    pub token: Option<String>,
    pub expires_in: u64,
    pub new_cert: Option<String>,
    pub active_cert: Option<String>,
}

/// `auth.refresh_token`: trade a refresh token for the next pair of tokens.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RefreshToken {
    pub refresh_token: String,
    pub aid: Option<String>,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    pub access_token: Option<String>,
    pub access_token_expires_at: Option<f64>,
    pub sdk_lang: Option<String>,
    pub sdk_version: Option<String>,
}

impl Request for RefreshToken {
    const METHOD: &'static str = "auth.refresh_token";
    type Result = RefreshResult;
}

/// The next pair of tokens, or why there is none.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RefreshResult {
    pub success: bool,
    pub aid: Option<String>,
    pub access_token: Option<String>,
    pub refresh_token: Option<String>,
    pub token: Option<String>,
    pub expires_in: Option<u64>,
    pub refresh_count: Option<u64>,
    pub error: Option<String>,
    pub relogin_required: bool,
    pub retryable: bool,
    pub diagnostic: Option<Map<String, Value>>,
}

/// `auth.verify_token`: verify an access token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyToken {
    pub token: String,
}

impl Request for VerifyToken {
    const METHOD: &'static str = "auth.verify_token";
    type Result = VerifiedToken;
}

/// Whose token it is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifiedToken {
    pub aid: String,
    pub jti: String,
    pub expires_at: f64,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    pub tokens_revoked_at: Option<i64>,
}

/// `auth.revoke_tokens`: end every token and every connection of an AID.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RevokeTokens {
    pub aid: String,
}

impl Request for RevokeTokens {
    const METHOD: &'static str = "auth.revoke_tokens";
    type Result = RevokedTokens;
}

/// Every token of the AID has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RevokedTokens {
    pub revoked: bool,
}

/// `auth.tokens_revoked_at`: get when every token of an AID was revoked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TokensRevokedAt {
    pub aid: String,
}

impl Request for TokensRevokedAt {
    const METHOD: &'static str = "auth.tokens_revoked_at";
    type Result = LastRevocation;
}

/// When every token of an AID was revoked for the last time, if ever.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastRevocation {
    pub revoked_at: Option<i64>,
}
