//! From an agent in a folder to its session: certificate and tokens are kept, renewed, and replaced when they are refused.

pub(crate) mod over_http;
pub(crate) mod reconnect;

use super::auth::{self, SessionOptions};
use super::chance::now;
use super::connection::ClientConnection;
use super::connection::dial::GatewayDialer;
use super::error::Error;
use super::events::EventReaders;
use super::home::{LocalAgent, StoredTokens};
use proto_schemas::codes;
use proto_schemas::requests::auth::{RefreshToken, RevocationTarget, RevokedIdentity};
use serde_json::value::to_raw_value;
use std::sync::Arc;

/// A token that expires within so many seconds is renewed first.
const MARGIN: i64 = 60;

/// Registers the agent's key under its AID; registering the same key again succeeds, too.
pub async fn register(dialer: &GatewayDialer, agent: &LocalAgent) -> Result<(), Error> {
    let connection = dialer.open().await?;
    let created = auth::create_aid(&connection, &agent.aid, &agent.key).await;
    connection.close().await;
    agent.keep_cert(&created?)?;
    agent.keep_gateway(dialer.gateway())
}

/// Logs an agent out everywhere, or ends it for good, with its key. A reason is one of
/// [`AGENT_REASONS`](proto_schemas::requests::auth::AGENT_REASONS).
pub async fn revoke(
    dialer: &GatewayDialer,
    agent: &LocalAgent,
    what: RevocationTarget,
    reason: &str,
) -> Result<RevokedIdentity, Error> {
    let cert = cert_of(agent)?;
    let connection = dialer.open().await?;
    let revoked = auth::revoke_cert(&connection, (&agent.aid, &agent.key, &cert), what, reason).await;
    connection.close().await;
    let revoked = revoked?;
    agent.forget_tokens()?;
    Ok(revoked)
}

/// A session of this agent, for calls alone: events are dropped, and a lost connection stays lost. Tokens are kept, renewed when
/// they expire, and a login gets new ones when they are refused.
pub async fn connect(
    dialer: &GatewayDialer,
    agent: &LocalAgent,
    options: &SessionOptions,
) -> Result<ClientConnection, Error> {
    open_session(dialer, agent, options, None).await
}

/// The same, with somebody to tell of events.
pub(crate) async fn open_session(
    dialer: &GatewayDialer,
    agent: &LocalAgent,
    options: &SessionOptions,
    events: Option<Arc<EventReaders>>,
) -> Result<ClientConnection, Error> {
    let connection = dialer.open_with(events).await?;
    let tokens = match fresh_tokens(agent) {
        Some(tokens) => tokens,
        None => renew(&connection, agent).await?,
    };
    match auth::connect(&connection, &tokens.access_token, options).await {
        // "The socket stays open, so that the client can refresh or log in and connect again on it."
        Err(error) if error.code() == Some(i64::from(codes::TOKEN_INVALID.code)) => {
            let tokens = log_in(&connection, agent).await?;
            auth::connect(&connection, &tokens.access_token, options).await?;
        }
        other => drop(other?),
    }
    Ok(connection)
}

/// An access token for requests over HTTP: the one that is kept, or a new one.
pub(crate) async fn access_token(dialer: &GatewayDialer, agent: &LocalAgent) -> Result<String, Error> {
    match fresh_tokens(agent) {
        Some(tokens) => Ok(tokens.access_token),
        None => Ok(renew_tokens(dialer, agent).await?.access_token),
    }
}

/// New tokens for an agent of this machine, whatever time is left to those it has: for programs that make requests over HTTP
/// without this crate. They are kept for the next connection, too.
pub async fn renew_tokens(dialer: &GatewayDialer, agent: &LocalAgent) -> Result<StoredTokens, Error> {
    let connection = dialer.open().await?;
    let renewed = renew(&connection, agent).await;
    connection.close().await;
    renewed
}

/// The same by a login, where the one that is kept was refused.
pub(crate) async fn new_access_token(dialer: &GatewayDialer, agent: &LocalAgent) -> Result<String, Error> {
    let connection = dialer.open().await?;
    let login = log_in(&connection, agent).await;
    connection.close().await;
    Ok(login?.access_token)
}

/// The tokens of the last login, unless they end within a moment.
fn fresh_tokens(agent: &LocalAgent) -> Option<StoredTokens> {
    agent.tokens().filter(|tokens| tokens.expires_at - MARGIN > now())
}

/// New tokens: by the refresh token if the server accepts it, else by a login with the key.
async fn renew(connection: &ClientConnection, agent: &LocalAgent) -> Result<StoredTokens, Error> {
    let Some(kept) = agent.tokens() else { return log_in(connection, agent).await };
    let (refresh_token, aid) = (kept.refresh_token, to_raw_value(&agent.aid).ok());
    let refreshed =
        connection.request(&RefreshToken { refresh_token, aid, ..RefreshToken::default() }).await?;
    match (refreshed.success, refreshed.access_token, refreshed.refresh_token) {
        (true, Some(access_token), Some(refresh_token)) => {
            keep(agent, access_token, refresh_token, refreshed.expires_in.unwrap_or_default())
        }
        _ => log_in(connection, agent).await,
    }
}

async fn log_in(connection: &ClientConnection, agent: &LocalAgent) -> Result<StoredTokens, Error> {
    let cert = cert_of(agent)?;
    let login = auth::log_in(connection, &agent.aid, &agent.key, &cert).await?;
    if let Some(cert) = &login.new_cert {
        agent.keep_cert(cert)?;
    }
    keep(agent, login.access_token, login.refresh_token, login.expires_in)
}

fn cert_of(agent: &LocalAgent) -> Result<String, Error> {
    agent.cert().ok_or_else(|| Error::Invalid(format!("{} is not registered yet", agent.aid)))
}

fn keep(
    agent: &LocalAgent,
    access_token: String,
    refresh_token: String,
    expires_in: i64,
) -> Result<StoredTokens, Error> {
    let expires_at = now().saturating_add(expires_in);
    let tokens = StoredTokens { access_token, refresh_token, expires_at };
    agent.keep_tokens(&tokens)?;
    Ok(tokens)
}
