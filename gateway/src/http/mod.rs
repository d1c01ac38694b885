//! HTTP beside the WebSocket, on the same listener, routed by the host part of `Host`.
//!
//! Clients on another port than 443 send `Host: {aid}` without a port while their TLS name is the gateway's, so the port
//! is ignored and the TLS name is not looked at.

mod agent_md;
mod ask;
mod pki;
mod reply;

pub use reply::{bare, json_reply, openmetrics, refuse};

use crate::gateway::Gateway;
use crate::status;
use ask::{Ask, Host};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::ALLOW;
use hyper::{Method, Request, Response, StatusCode};
use reply::{Reply, not_found, text};
use serde_json::{Value, json};
use services::kernel::{RpcError, unavailable};
use std::net::IpAddr;

pub async fn answer(gateway: &Gateway, address: IpAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if let Err(wait) = gateway.limits.http(address) {
        gateway.metrics.http("limited", 429);
        return reply::too_many(gateway, wait);
    }
    let (route, reply) = route(Ask::new(gateway, request)).await;
    let response = reply.unwrap_or_else(|error| reply::failed(&error)).done();
    gateway.metrics.http(route, response.status().as_u16());
    response
}

/// The route's name for the metrics, and what it says.
async fn route(mut ask: Ask<'_>) -> (&'static str, Result<Reply, RpcError>) {
    let path = std::mem::take(&mut ask.path);
    if ask.method == Method::OPTIONS {
        return ("preflight", Ok(text(StatusCode::NO_CONTENT, "text/plain", "")));
    }
    if !ask.gateway.capabilities.serves(&path) {
        // Its process is down: it is not gone, and whoever asks may ask again.
        if let Some((namespace, _)) = ask.gateway.mesh.health().into_iter().find(|(_, up)| !up) {
            return ("unavailable", Err(unavailable(namespace)));
        }
        return ("unknown", Ok(not_found()));
    }
    if path == "/agent.md" || (path == "/" && matches!(ask.host, Host::Agent(_))) {
        return ("agent.md", agent_md::answer(ask).await);
    }
    let known = matches!(
        path.as_str(),
        "/health" | "/.well-known/aun-gateway" | "/capabilities" | "/metrics" | "/ca/cert"
    ) || path.starts_with("/pki/")
        || (matches!(ask.host, Host::Pki) && matches!(path.as_str(), "/trust-root.json" | "/root.crt"));
    if !known {
        return ("unknown", Ok(not_found()));
    }
    if ask.method != Method::GET && ask.method != Method::HEAD {
        let refused =
            refuse(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "GET and HEAD are answered here");
        return ("unknown", Ok(refused.header(ALLOW, "GET, HEAD, OPTIONS")));
    }
    match path.as_str() {
        "/health" => {
            let (status, health) = status::health(&ask.gateway.mesh);
            ("health", Ok(json_reply(status, &health)))
        }
        "/.well-known/aun-gateway" => {
            ("well-known", Ok(json_reply(StatusCode::OK, &well_known(ask.gateway))))
        }
        "/capabilities" => {
            ("capabilities", Ok(text(StatusCode::OK, "application/json", &ask.gateway.capabilities.text())))
        }
        "/metrics" => ("metrics", Ok(metrics(ask.gateway))),
        _ => ("pki", pki::answer(&ask, &path).await),
    }
}

fn well_known(gateway: &Gateway) -> Value {
    let mut document = json!({
        "gateways": [{ "url": gateway.public_url, "priority": 1 }],
        "gateway": gateway.public_url,
        "issuer": gateway.config.issuer,
        "version": "1.0",
    });
    if gateway.federation().is_some() {
        document["federation"] = json!({ "versions": ["1.0"], "url": gateway.public_url });
    }
    document
}

fn metrics(gateway: &Gateway) -> Reply {
    gateway.metrics.outbox_bytes.set(i64::try_from(gateway.outbox_bytes()).unwrap_or(i64::MAX));
    gateway.metrics.take_bus(gateway.bus.stats().unwrap_or_default(), gateway.presence.count());
    openmetrics(&gateway.metrics.text())
}
