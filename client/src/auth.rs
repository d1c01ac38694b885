//! The calls that lead from a key to a session, each on a socket whose challenge has been read. Nothing is stored here.

use super::agent_id::AgentId;
use super::chance::{now, secret};
use super::connection::ClientConnection;
use super::error::Error;
use super::home::StoredTokens;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use certs::Key;
use serde_json::{Value, json};

/// Events come on long connections only; a few calls need no more than a short one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionKind {
    /// Stays, gets events, and replaces the long connection that its device and slot had before.
    #[default]
    Long,
    /// For a few calls, beside others like it; gets no events.
    Short,
}

/// What a session is opened as.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The installation of the agent: every device has an inbox of its own.
    pub device: String,
    /// The consumer on that device: every slot has a cursor of its own.
    pub slot: String,
    /// Whether it gets events.
    pub kind: SessionKind,
}

/// What a login gives.
#[derive(Clone)]
pub struct Login {
    /// The tokens.
    pub tokens: StoredTokens,
    /// A newer certificate of the same key, where the server has one.
    pub new_cert: Option<String>,
}

/// Registers a key under an AID, and gives its certificate. Registering the same key again succeeds, too.
pub async fn create_aid(connection: &ClientConnection, aid: &AgentId, key: &Key) -> Result<String, Error> {
    let public_key = BASE64_STANDARD.encode(key.public().spki_der());
    let params = json!({ "aid": aid, "public_key": public_key, "curve": key.public().curve().to_string() });
    text(&connection.call("auth.create_aid", &params).await?, "cert")
}

/// Both steps of a login, on one socket.
pub async fn log_in(
    connection: &ClientConnection,
    aid: &AgentId,
    key: &Key,
    cert: &str,
) -> Result<Login, Error> {
    let params = json!({ "aid": aid, "cert": cert, "client_nonce": secret() });
    let begun = connection.call("auth.aid_login1", &params).await?;

    let (request_id, nonce) = (text(&begun, "request_id")?, text(&begun, "nonce")?);
    let client_time = format!("{}.0", now());
    let signature = BASE64_STANDARD.encode(key.sign(format!("{nonce}:{client_time}").as_bytes()));
    let params = json!({ "aid": aid, "request_id": request_id, "nonce": nonce,
        "client_time": client_time, "signature": signature });
    let done = connection.call("auth.aid_login2", &params).await?;
    Ok(Login { tokens: tokens(&done)?, new_cert: done["new_cert"].as_str().map(str::to_owned) })
}

/// New tokens for a refresh token; none where it was used already or is too old, and then only a login helps.
pub async fn refresh_token(
    connection: &ClientConnection,
    aid: &AgentId,
    refresh_token: &str,
) -> Result<Option<StoredTokens>, Error> {
    let params = json!({ "aid": aid, "refresh_token": refresh_token });
    let refreshed = connection.call("auth.refresh_token", &params).await?;
    if refreshed["success"] != true {
        return Ok(None);
    }
    tokens(&refreshed).map(Some)
}

/// Makes the socket a session, and gives what the server answers.
pub async fn connect(
    connection: &ClientConnection,
    access_token: &str,
    options: &SessionOptions,
) -> Result<Value, Error> {
    let kind = match options.kind {
        SessionKind::Long => "long",
        SessionKind::Short => "short",
    };
    let params = json!({
        "nonce": connection.nonce(),
        "auth": { "method": "kite_token", "token": access_token },
        "protocol": { "min": "1.0", "max": "1.0" },
        "device": { "id": options.device, "type": "sdk" },
        "client": { "slot_id": options.slot, "sdk_lang": "rust", "sdk_version": env!("CARGO_PKG_VERSION") },
        "delivery_mode": { "mode": "fanout", "routing": "", "affinity_ttl_ms": 0 },
        "options": { "kind": kind },
    });
    connection.call("auth.connect", &params).await
}

fn tokens(answer: &Value) -> Result<StoredTokens, Error> {
    Ok(StoredTokens {
        access_token: text(answer, "access_token")?,
        refresh_token: text(answer, "refresh_token")?,
        expires_at: now() + answer["expires_in"].as_i64().unwrap_or_default(),
    })
}

fn text(answer: &Value, field: &str) -> Result<String, Error> {
    let text = answer[field].as_str().map(str::to_owned);
    text.ok_or_else(|| Error::Unexpected(format!("its answer has no {field}")))
}
