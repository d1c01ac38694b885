//! What the gateway shows of itself: health, capabilities, metrics, and where it is.

use super::reply;
use crate::gateway::GatewayState;
use crate::health::ProcessHealth;
use axum::response::Response;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use services::kernel::http::json_text;

pub(super) fn answer(gateway: &GatewayState, method: &Method, path: &str) -> Response {
    if method != Method::GET && method != Method::HEAD {
        return reply::not_allowed("GET, HEAD, OPTIONS");
    }
    if let Some(answer) = ProcessHealth::answer(path, &gateway.health) {
        return answer;
    }
    match path {
        "/.well-known/aun-gateway" => json_text(StatusCode::OK, well_known(gateway).to_string()),
        "/capabilities" => json_text(StatusCode::OK, &*gateway.admission.capabilities()),
        "/metrics" => reply::openmetrics(metrics(gateway)),
        _ => reply::not_found(),
    }
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

fn metrics(gateway: &GatewayState) -> String {
    gateway.metrics.outbox_bytes.set(i64::try_from(gateway.sessions.outbox_bytes()).unwrap_or(i64::MAX));
    gateway.metrics.set_bus(gateway.delivery.bus_stats(), gateway.sessions.present());
    gateway.metrics.text()
}
