//! What the gateway shows of itself: health, capabilities, metrics, and where it is.

use super::caller::bearer;
use super::reply;
use crate::gateway::GatewayState;
use crate::health::ProcessHealth;
use axum::response::Response;
use hyper::{HeaderMap, Method, StatusCode};
use kernel::http::json_text;
use kernel::{RpcError, sha256};
use serde_json::{Value, json};

pub(super) fn answer(
    gateway: &GatewayState,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Result<Response, RpcError> {
    if method != Method::GET && method != Method::HEAD {
        return Err(reply::not_allowed("GET, HEAD, OPTIONS"));
    }
    if let Some(answer) = ProcessHealth::answer(path, &gateway.health) {
        return Ok(answer);
    }
    Ok(match path {
        "/.well-known/aun-gateway" => json_text(StatusCode::OK, well_known(gateway).to_string()),
        "/capabilities" => json_text(StatusCode::OK, &*gateway.admission.capabilities()),
        "/openapi.json" => json_text(StatusCode::OK, &*gateway.admission.openapi()),
        "/metrics" => metrics(gateway, headers)?,
        _ => return Err(reply::not_found()),
    })
}

fn well_known(gateway: &GatewayState) -> Value {
    let mut document = json!({
        "gateways": [{ "url": gateway.public_url, "priority": 1 }],
        "gateway": gateway.public_url,
        "issuer": gateway.config.issuer,
        "version": "1.0",
    });
    if gateway.federation.is_some() {
        document["federation"] = json!({ "versions": ["1.0"], "url": gateway.public_url });
    }
    document
}

/// Who is connected and what they call is for the operator: whoever has the token that the settings name.
fn metrics(gateway: &GatewayState, headers: &HeaderMap) -> Result<Response, RpcError> {
    let Some(token) = &gateway.config.status.token else { return Err(reply::not_found()) };
    if !bearer(headers).is_some_and(|given| is_same(given, token)) {
        return Err(reply::unauthorized("metrics require the bearer token of status.token"));
    }
    gateway.metrics.set_bus(gateway.delivery.bus_stats(), gateway.sessions.present());
    Ok(reply::openmetrics(gateway.metrics.text()))
}

/// Compares digests, so that how long it takes says nothing about the token.
fn is_same(given: &str, token: &str) -> bool {
    sha256(given) == sha256(token)
}
