//! From a key to a session: register, log in, refresh, connect.

use super::connection::ClientConnection;
use super::dial::GatewayDialer;
use super::error::Error;
use super::home::{LocalAgent, StoredTokens};
use anyhow::Context as _;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use services::kernel::{Clock, Ids, codes};

/// A token that expires within so many seconds is renewed first.
const MARGIN: i64 = 60;

/// The slot of an agent of the command line.
const SLOT: &str = "cli";

/// Events come on long connections only; a few calls need no more than a short one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientConnectionKind {
    Long,
    Short,
}

/// Registers the agent's key under its AID; registering the same key again succeeds, too.
pub async fn register(dialer: &GatewayDialer, agent: &LocalAgent) -> anyhow::Result<()> {
    let mut connection = dialer.open().await?;
    let public_key = BASE64_STANDARD.encode(agent.key.public().spki_der());
    let params = json!({ "aid": agent.aid, "public_key": public_key, "curve": "P-256" });
    let created = connection.call("auth.create_aid", &params).await?;
    connection.close().await;
    agent.keep_cert(text(&created, "cert")?)?;
    agent.keep_gateway(dialer.gateway())
}

/// A session of this agent. Tokens are kept, renewed when they expire, and a login gets new ones when they are refused.
pub async fn connect(
    dialer: &GatewayDialer,
    agent: &LocalAgent,
    device: &str,
    kind: ClientConnectionKind,
) -> anyhow::Result<ClientConnection> {
    let mut connection = dialer.open().await?;
    let kept = agent.tokens();
    let fresh = kept.as_ref().filter(|tokens| tokens.expires_at - MARGIN > now());
    let tokens = match fresh {
        Some(tokens) => tokens.clone(),
        None => renew(&mut connection, agent, kept.as_ref()).await?,
    };
    match auth_connect(&mut connection, &tokens, device, kind).await {
        // "The socket stays open, so that the client can refresh or log in and connect again on it."
        Err(error) if error.code() == Some(i64::from(codes::TOKEN_INVALID.code)) => {
            let tokens = login(&mut connection, agent).await?;
            auth_connect(&mut connection, &tokens, device, kind).await?;
        }
        other => other?,
    }
    Ok(connection)
}

async fn auth_connect(
    connection: &mut ClientConnection,
    tokens: &StoredTokens,
    device: &str,
    kind: ClientConnectionKind,
) -> Result<(), Error> {
    let kind = match kind {
        ClientConnectionKind::Long => "long",
        ClientConnectionKind::Short => "short",
    };
    let params = json!({
        "nonce": connection.nonce(),
        "auth": { "method": "kite_token", "token": tokens.access_token },
        "protocol": { "min": "1.0", "max": "1.0" },
        "device": { "id": device, "type": "cli" },
        "client": { "slot_id": SLOT, "sdk_lang": "rust", "sdk_version": env!("CARGO_PKG_VERSION") },
        "delivery_mode": { "mode": "fanout", "routing": "", "affinity_ttl_ms": 0 },
        "options": { "kind": kind },
    });
    connection.call("auth.connect", &params).await.map(drop)
}

/// New tokens: by the refresh token if the server accepts it, else by a login with the key.
async fn renew(
    connection: &mut ClientConnection,
    agent: &LocalAgent,
    kept: Option<&StoredTokens>,
) -> anyhow::Result<StoredTokens> {
    let Some(kept) = kept else { return login(connection, agent).await };
    let params = json!({ "aid": agent.aid, "refresh_token": kept.refresh_token });
    let refreshed = connection.call("auth.refresh_token", &params).await?;
    if refreshed["success"] != true {
        return login(connection, agent).await;
    }
    keep_tokens(agent, &refreshed)
}

/// Both steps of a login, on one socket.
async fn login(connection: &mut ClientConnection, agent: &LocalAgent) -> anyhow::Result<StoredTokens> {
    let cert = agent.cert().with_context(|| format!("{} is not registered yet", agent.aid))?;
    let params = json!({ "aid": agent.aid, "cert": cert, "client_nonce": Ids::default().secret() });
    let begun = connection.call("auth.aid_login1", &params).await?;

    let (request_id, nonce) = (text(&begun, "request_id")?, text(&begun, "nonce")?);
    let client_time = format!("{}.0", now());
    let signature = BASE64_STANDARD.encode(agent.key.sign(format!("{nonce}:{client_time}").as_bytes()));
    let params = json!({ "aid": agent.aid, "request_id": request_id, "nonce": nonce,
        "client_time": client_time, "signature": signature });
    let done = connection.call("auth.aid_login2", &params).await?;
    if let Some(cert) = done["new_cert"].as_str() {
        agent.keep_cert(cert)?;
    }
    keep_tokens(agent, &done)
}

fn keep_tokens(agent: &LocalAgent, answer: &Value) -> anyhow::Result<StoredTokens> {
    let tokens = StoredTokens {
        access_token: text(answer, "access_token")?.to_owned(),
        refresh_token: text(answer, "refresh_token")?.to_owned(),
        expires_at: now() + answer["expires_in"].as_i64().unwrap_or_default(),
    };
    agent.keep_tokens(&tokens)?;
    Ok(tokens)
}

fn text<'a>(answer: &'a Value, field: &str) -> Result<&'a str, Error> {
    answer[field].as_str().ok_or_else(|| Error::Unexpected(format!("its answer has no {field}")))
}

fn now() -> i64 {
    Clock::default().now_seconds()
}
