//! HTTP beside the WebSocket, on the same listener, routed by the host part of `Host`.
//!
//! Clients on another port than 443 send `Host: {aid}` without a port while their TLS name is the gateway's, so the port
//! is ignored and so is the TLS name.

mod agent_md;
mod pki;
mod reply;
mod request;
pub mod status;

pub use reply::{bare, refuse};

use crate::gateway::GatewayState;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::ALLOW;
use hyper::{Method, Request, Response, StatusCode};
use reply::{Reply, json_reply, not_found, openmetrics, text};
use request::{Host, HttpRequest};
use serde_json::{Value, json};
use services::kernel::RpcError;
use std::net::IpAddr;

pub async fn answer(
    gateway: &GatewayState,
    address: IpAddr,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    if let Err(wait) = gateway.admission.limits.http(address) {
        gateway.metrics.http("limited", 429);
        return reply::too_many(gateway, wait);
    }
    let (route, reply) = route(HttpRequest::new(gateway, request)).await;
    let response = reply.unwrap_or_else(|error| reply::failed(&error)).done();
    gateway.metrics.http(route, response.status().as_u16());
    response
}

/// The route's name for the metrics, and its answer.
async fn route(mut request: HttpRequest<'_>) -> (&'static str, Result<Reply, RpcError>) {
    let path = std::mem::take(&mut request.path);
    if request.method == Method::OPTIONS {
        return ("preflight", Ok(text(StatusCode::NO_CONTENT, "text/plain", "")));
    }
    let mut prefixes = proto_schemas::namespaces().iter().flat_map(|namespace| namespace.http);
    match prefixes.find(|prefix| prefix.covers(&path)).map(|prefix| request.gateway.admission.serves(prefix))
    {
        Some(Ok(true)) => {}
        Some(Ok(false)) | None => return ("unknown", Ok(not_found())),
        Some(Err(error)) => return ("unavailable", Err(error)),
    }
    if path == "/agent.md" || (path == "/" && matches!(request.host, Host::Agent(_))) {
        return ("agent.md", agent_md::answer(request).await);
    }
    let known = matches!(
        path.as_str(),
        "/health" | "/.well-known/aun-gateway" | "/capabilities" | "/metrics" | "/ca/cert"
    ) || path.starts_with("/pki/")
        || (matches!(request.host, Host::Pki) && matches!(path.as_str(), "/trust-root.json" | "/root.crt"));
    if !known {
        return ("unknown", Ok(not_found()));
    }
    if request.method != Method::GET && request.method != Method::HEAD {
        let refused =
            refuse(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "only GET and HEAD are allowed");
        return ("unknown", Ok(refused.header(ALLOW, "GET, HEAD, OPTIONS")));
    }
    match path.as_str() {
        "/health" => {
            let (status, health) = status::health(&request.gateway.mesh, &request.gateway.tasks);
            ("health", Ok(json_reply(status, &health)))
        }
        "/.well-known/aun-gateway" => {
            ("well-known", Ok(json_reply(StatusCode::OK, &well_known(request.gateway))))
        }
        "/capabilities" => (
            "capabilities",
            Ok(text(StatusCode::OK, "application/json", &request.gateway.admission.capabilities())),
        ),
        "/metrics" => ("metrics", Ok(metrics(request.gateway))),
        _ => ("pki", pki::answer(&request, &path).await),
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

fn metrics(gateway: &GatewayState) -> Reply {
    gateway.metrics.outbox_bytes.set(i64::try_from(gateway.sessions.outbox_bytes()).unwrap_or(i64::MAX));
    gateway.metrics.set_bus(gateway.delivery.bus_stats(), gateway.sessions.present());
    openmetrics(&gateway.metrics.text())
}
