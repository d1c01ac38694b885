//! HTTP beside the WebSocket, on the same listener: routed by host and path to the service that declares them, in this
//! process or another. The gateway answers what is about itself, and `/rpc`.

mod caller;
mod cors;
mod forward;
mod host;
mod own;
mod reply;
mod route;
mod rpc;
pub mod status;
#[cfg(test)]
mod tests;

use crate::gateway::GatewayState;
use axum::response::{IntoResponse as _, Response};
use host::RequestHost;
use hyper::body::Incoming;
use hyper::{Method, Request};
use route::DeclaredPath;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

static DECLARED: LazyLock<Vec<DeclaredPath>> = LazyLock::new(route::declared_paths);

pub async fn answer(gateway: &Arc<GatewayState>, address: IpAddr, request: Request<Incoming>) -> Response {
    let (label, cors, mut response) = answer_labelled(gateway, address, request).await;
    if cors {
        cors::add_to(&mut response);
    }
    gateway.metrics.http(label, response.status().as_u16());
    response
}

/// The answer, the name of its route for the metrics, and whether pages of any origin may read it.
async fn answer_labelled(
    gateway: &Arc<GatewayState>,
    address: IpAddr,
    request: Request<Incoming>,
) -> (&'static str, bool, Response) {
    if let Err(wait) = gateway.admission.limits.http(address) {
        return ("limited", true, reply::too_many(gateway, wait));
    }
    let host = RequestHost::of(&request, &gateway.config.issuer);
    let Some(declared) = route::find(&DECLARED, &host, request.uri().path()) else {
        return ("unknown", true, reply::not_found());
    };
    let cors = declared.prefix.cors;
    if cors && request.method() == Method::OPTIONS {
        return ("preflight", true, cors::preflight());
    }
    match gateway.admission.serves(declared.prefix) {
        Ok(true) => {}
        Ok(false) => return ("unknown", cors, reply::not_found()),
        Err(error) => return ("unavailable", cors, error.into_response()),
    }
    let answered = match (declared.service, declared.prefix.path) {
        ("gateway", "/rpc") => rpc::answer(gateway, address, request).await,
        ("gateway", path) => Ok(own::answer(gateway, request.method(), path, request.headers())),
        _ => forward::forward(gateway, address, declared, &host, request).await,
    };
    (declared.prefix.path, cors, answered.unwrap_or_else(|error| error.into_response()))
}
