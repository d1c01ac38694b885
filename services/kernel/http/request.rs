//! What the gateway says about a request, in headers that only it may write.

use super::refuse;
use crate::{Aid, Caller, RpcError};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use std::convert::Infallible;
use std::time::Duration;

/// Every header that begins like this is the server's own.
pub const INTERNAL_PREFIX: &str = "x-aund-";
/// Who calls: a [`Caller`] as JSON.
pub const CALLER: &str = "x-aund-caller";
/// How long the gateway waits for the whole answer. Absent where a request may take as long as its bytes keep coming.
pub const DEADLINE_MS: &str = "x-aund-deadline-ms";
/// The agent whose host name was asked, if it is one's.
pub const HOST_AGENT: &str = "x-aund-host-agent";

pub fn caller_header(caller: &Caller) -> Result<HeaderValue, RpcError> {
    let json = serde_json::to_vec(caller).map_err(RpcError::internal)?;
    HeaderValue::from_bytes(&json).map_err(RpcError::internal)
}

/// The caller that the headers name; none if they name none, or what cannot be read.
pub fn caller_of(headers: &HeaderMap) -> Option<Caller> {
    serde_json::from_slice(headers.get(CALLER)?.as_bytes()).ok()
}

/// How long the whole answer may take.
pub fn deadline_of(headers: &HeaderMap) -> Option<Duration> {
    headers.get(DEADLINE_MS)?.to_str().ok()?.parse().ok().map(Duration::from_millis)
}

/// A handler takes the caller as an argument. A request without one comes from nobody.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Response> {
        match (caller_of(&parts.headers), parts.headers.contains_key(CALLER)) {
            (Some(caller), _) => Ok(caller),
            (None, false) => Ok(Caller::Unauthenticated(None)),
            (None, true) => {
                Err(refuse(StatusCode::BAD_REQUEST, "invalid_request", "the caller cannot be read"))
            }
        }
    }
}

/// The agent whose host name was asked: `alice.agents.localhost` in `https://alice.agents.localhost/agent.md`.
pub struct HostAgent(pub Option<Aid>);

impl<S: Sync> FromRequestParts<S> for HostAgent {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<HostAgent, Infallible> {
        let named = parts.headers.get(HOST_AGENT).and_then(|name| name.to_str().ok());
        Ok(HostAgent(named.and_then(|name| Aid::parse(name).ok())))
    }
}
