//! A request for the router of a service, in this process or another: it is authenticated and admitted before it gets here.

use super::caller::HttpCaller;
use super::host::RequestHost;
use super::route::DeclaredPath;
use super::{PathAnswer, reply};
use crate::gateway::GatewayState;
use crate::http_body::{BodyRefused, BodyWatch, RequestBody, ResponseBody, is_event_stream};
use crate::local_routes;
use axum::body::Body;
use axum::response::Response;
use hyper::body::Body as _;
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use hyper::{Method, Request};
use kernel::http::{CALLER, DEADLINE_MS, HOST_AGENT, INTERNAL_PREFIX, caller_header};
use kernel::{Caller, PendingResponse, RpcError, ServiceRoutes, timed_out, unavailable};
use proto_schemas::HttpRoute;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// About one connection, and not about the request that is passed on.
const NOT_PASSED_ON: [HeaderName; 7] = [
    CONNECTION,
    HOST,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

pub(super) async fn forward(
    gateway: &Arc<GatewayState>,
    caller: &HttpCaller,
    path: &PathAnswer,
    route: Option<&HttpRoute>,
    host: &RequestHost,
    request: Request<Incoming>,
) -> Result<Response, RpcError> {
    let DeclaredPath { prefix, service } = path.declared;
    let most_bytes = route.and_then(|route| route.body_bytes).unwrap_or(prefix.body_bytes);
    // A route that streams gets here only if events were asked for.
    let streams = prefix.streams || route.is_some_and(|route| route.stream);
    if request.body().size_hint().lower() > most_bytes as u64 {
        return Err(reply::body_refused(BodyRefused::TooLarge));
    }
    let admission = &gateway.admission;
    let mut stream = if streams { Some(admission.open_stream(&caller.source())?) } else { None };

    let (mut parts, body) = request.into_parts();
    if parts.method == Method::HEAD {
        // Our server leaves out the body; a refusal of the router is in it.
        parts.method = Method::GET;
    }
    let within = (!streams).then(|| gateway.call_timeout());
    // It has done its work.
    parts.headers.remove(AUTHORIZATION);
    replace_headers(&mut parts.headers, &caller.caller(None), host, within)?;
    let silence = Duration::from_millis(gateway.config.limits.body_silence_ms);
    let (body, watch) = RequestBody::new(body, most_bytes, silence);
    let request = Request::from_parts(parts, Body::new(body));
    let began = Instant::now();
    let answering = send(gateway, service, request)?;
    let response = head(answering, &watch, service, gateway.call_timeout(), streams).await;
    // A service cannot know why the body ended, and answers whatever it answers to half of one.
    if let Some(reason) = watch.refused() {
        return Err(reply::body_refused(reason));
    }
    let (parts, body) = response?.into_parts();
    // A path may answer with events although it does not declare that it streams.
    if stream.is_none() && is_event_stream(&parts.headers) {
        stream = Some(admission.open_stream(&caller.source())?);
    }
    let mut body = ResponseBody::new(body).holding(stream);
    if let Some(within) = within {
        body = body.until(began + within);
    }
    if is_event_stream(&parts.headers) {
        body = body.until_stopped(&gateway.stop);
    }
    Ok(Response::from_parts(parts, Body::new(body)))
}

fn replace_headers(
    headers: &mut HeaderMap,
    caller: &Caller,
    host: &RequestHost,
    within: Option<Duration>,
) -> Result<(), RpcError> {
    let internal = |name: &&HeaderName| name.as_str().starts_with(INTERNAL_PREFIX);
    let forged: Vec<HeaderName> = headers.keys().filter(internal).cloned().collect();
    for name in forged.iter().chain(&NOT_PASSED_ON) {
        headers.remove(name);
    }
    headers.insert(CALLER, caller_header(caller)?);
    if let RequestHost::Agent(aid) = host {
        headers.insert(HOST_AGENT, HeaderValue::from_str(aid.as_str()).map_err(RpcError::internal)?);
    }
    if let Some(within) = within {
        let ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        headers.insert(DEADLINE_MS, ms.into());
    }
    Ok(())
}

fn send(
    gateway: &Arc<GatewayState>,
    service: &'static str,
    request: Request<Body>,
) -> Result<PendingResponse, RpcError> {
    match gateway.mesh.routes(service) {
        Some(ServiceRoutes::Local(router)) => {
            let gateway = gateway.clone();
            Ok(Box::pin(async move { local_routes::call(router, request, &gateway.tracker).await }))
        }
        Some(ServiceRoutes::Remote(remote)) => Ok(remote.send(request)),
        None => Err(unavailable(service)),
    }
}

/// Waits for the head of the response. A stream may take longer than a call, as long as pieces of its body pass.
async fn head(
    mut answering: PendingResponse,
    watch: &BodyWatch,
    service: &str,
    within: Duration,
    streams: bool,
) -> Result<Response, RpcError> {
    loop {
        let pieces = watch.pieces();
        match timeout(within, &mut answering).await {
            Ok(response) => return response,
            Err(_) if streams && watch.pieces() != pieces => {}
            Err(_) => return Err(timed_out(service, within)),
        }
    }
}
