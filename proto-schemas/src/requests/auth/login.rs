//! Logging in, and the tokens that come of it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use crate::{Aid, Request};

/// `auth.aid_login1`: begin a login: show the certificate, get a nonce to sign.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AidLogin1 {
    pub aid: Aid,
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AidLogin2 {
    pub aid: Aid,
    pub request_id: String,
    pub nonce: String,
    /// A string or a number, signed exactly as it is written.
    pub client_time: Box<RawValue>,
    pub signature: String,
    /// Not read: the certificate given to `auth.aid_login1` counts.
    pub cert: Option<Box<RawValue>>,
}

impl Request for AidLogin2 {
    const METHOD: &'static str = "auth.aid_login2";
    type Result = LoginTokens;
}

/// The tokens of a login.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoginTokens {
    pub status: String,
    pub aid: Aid,
    pub access_token: String,
    pub refresh_token: String,
    /// The access token again, under the name that older clients read.
    pub token: Option<String>,
    pub expires_in: i64,
    pub new_cert: Option<String>,
    pub active_cert: Option<String>,
}

/// `auth.refresh_token`: trade a refresh token for the next pair of tokens.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RefreshToken {
    /// Where it is left out, the result says so.
    #[serde(default)]
    pub refresh_token: String,
    // The token alone counts: the rest is not read.
    pub aid: Option<Box<RawValue>>,
    pub device_id: Option<Box<RawValue>>,
    pub slot_id: Option<Box<RawValue>>,
    pub access_token: Option<Box<RawValue>>,
    pub access_token_expires_at: Option<Box<RawValue>>,
    pub sdk_lang: Option<Box<RawValue>>,
    pub sdk_version: Option<Box<RawValue>>,
}

impl Request for RefreshToken {
    const METHOD: &'static str = "auth.refresh_token";
    type Result = RefreshResult;
}

/// The next pair of tokens, or why there is none.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RefreshResult {
    pub success: bool,
    pub aid: Option<Aid>,
    pub access_token: Option<String>,
    pub refresh_token: Option<String>,
    pub token: Option<String>,
    pub expires_in: Option<i64>,
    pub refresh_count: Option<i64>,
    pub error: Option<String>,
    pub relogin_required: bool,
    pub retryable: bool,
    pub diagnostic: Option<Box<RawValue>>,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifiedToken {
    pub aid: Aid,
    pub jti: String,
    pub expires_at: i64,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    pub tokens_revoked_at: Option<i64>,
    pub network: Option<String>,
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
