//! HTTP beside the WebSocket, on the same listener: routed by host and path to the service that declares them, in this
//! process or another. The gateway answers what is about itself, and `/rpc`.
//!
//! A path that is a route of a method is a call like any other. What is not (bytes, streams, pages) goes to the router of the service.
//! Whoever answers or refuses, the answer is in the envelope of its path.

mod body;
mod call;
mod caller;
mod cors;
mod forward;
mod gathered;
mod host;
mod method_route;
mod own;
mod reply;
mod route;
mod rpc;
pub mod status;
#[cfg(test)]
mod tests;

pub use reply::plain_failure;

use crate::admission::{Call, CalledMethod};
use crate::gateway::GatewayState;
use axum::response::Response;
use caller::{Authenticated, HttpCaller, bearer};
use cors::PageAccess;
use host::RequestHost;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONNECTION, CONTENT_LENGTH, HeaderName};
use hyper::{Method, Request, StatusCode};
use kernel::http::{
    FoundRoutes, MethodRoute, RequestIds, RouteTable, failure, refusal_of, wants_events, with_header,
};
use kernel::{CallWay, RpcError};
use proto_schemas::{Access, HttpEnvelope, plain_envelope};
use route::DeclaredPath;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

static DECLARED: LazyLock<Vec<DeclaredPath>> = LazyLock::new(route::declared_paths);
static ROUTES: LazyLock<RouteTable> = LazyLock::new(|| RouteTable::new(route::methods()));

/// How what is asked below a declared path is answered.
struct PathAnswer {
    declared: DeclaredPath,
    envelope: &'static HttpEnvelope,
    ids: RequestIds,
}

pub async fn answer(gateway: &Arc<GatewayState>, address: IpAddr, request: Request<Incoming>) -> Response {
    let host = RequestHost::of(&request, &gateway.config.issuer);
    let declared = route::find(&DECLARED, &host, request.uri().path());
    let envelope = declared.map_or_else(plain_envelope, |declared| &**declared.prefix.envelope);
    let ids = match envelope.has_ids {
        true => RequestIds::of(request.headers(), &gateway.ids),
        false => RequestIds::default(),
    };
    let pages = pages_of(declared, &request);
    let (label, mut response) = match within_rate(gateway, address, &request) {
        Err(wait) => {
            let refused = failure(envelope, &reply::too_many(wait), &ids);
            ("limited", reply::with_rate_headers(gateway, refused, wait))
        }
        Ok(()) => match declared {
            None => ("unknown", failure(envelope, &reply::not_found(), &ids)),
            Some(_) if pages != PageAccess::None && request.method() == Method::OPTIONS => {
                ("preflight", cors::preflight())
            }
            Some(declared) => {
                let path = PathAnswer { declared, envelope, ids };
                let answered = answer_path(gateway, address, &host, &path, request).await;
                (declared.prefix.path, path.response(answered).await)
            }
        },
    };
    cors::add_to(&mut response, &pages);
    gateway.metrics.http(label, response.status().as_u16());
    response
}

/// Which pages may read the answer. Where a path is for no page, a route of it may be, and only this route is then.
fn pages_of(declared: Option<DeclaredPath>, request: &Request<Incoming>) -> PageAccess {
    if declared.is_none_or(|declared| declared.prefix.cors) {
        return PageAccess::All;
    }
    let service = declared.map(|declared| declared.service);
    let found = ROUTES.find(request.uri().path());
    let routes = found.iter().flat_map(|found| found.routes);
    let open = routes.filter(|one| one.route.cors && Some(one.method.namespace.service) == service);
    PageAccess::of_routes(open.map(|one| one.route.method), request)
}

/// Requests with a token that a service vouched for a moment ago count by the token: runners and back ends share addresses.
fn within_rate(
    gateway: &GatewayState,
    address: IpAddr,
    request: &Request<Incoming>,
) -> Result<(), std::time::Duration> {
    let by_token = bearer(request.headers()).and_then(|token| gateway.admission.tokens.within_rate(token));
    by_token.unwrap_or_else(|| gateway.admission.limits.http(address))
}

impl PathAnswer {
    /// The answer, or the refusal of the gateway or of a router in the envelope of the path.
    async fn response(&self, answered: Result<Response, RpcError>) -> Response {
        let (error, headers) = match answered {
            Ok(response) => match refusal_of(response).await {
                Ok(response) => return response,
                Err((error, headers)) => (error, Some(headers)),
            },
            Err(error) => (error, None),
        };
        error.log("http");
        let allow = error.data("allow").and_then(|allow| allow.as_str()).map(str::to_owned);
        let mut response = failure(self.envelope, &error.without("allow"), &self.ids);
        for (name, value) in headers.into_iter().flatten() {
            let of_body =
                |name: &HeaderName| *name == CONTENT_LENGTH || response.headers().contains_key(name);
            if let Some(name) = name.filter(|name| !of_body(name)) {
                response.headers_mut().insert(name, value);
            }
        }
        // A client in the middle of its body cannot use the connection again.
        if matches!(response.status(), StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT) {
            response = with_header(response, CONNECTION, "close");
        }
        allow.into_iter().fold(response, |response, allow| with_header(response, ALLOW, &allow))
    }
}

async fn answer_path(
    gateway: &Arc<GatewayState>,
    address: IpAddr,
    host: &RequestHost,
    path: &PathAnswer,
    request: Request<Incoming>,
) -> Result<Response, RpcError> {
    let DeclaredPath { prefix, service } = path.declared;
    if !gateway.admission.serves(prefix)? {
        return Err(reply::not_found());
    }
    match (service, prefix.path) {
        ("gateway", "/rpc") => return rpc::answer(gateway, address, request).await,
        ("gateway", own) => return own::answer(gateway, request.method(), own, request.headers()),
        _ => {}
    }
    let found = ROUTES.find(request.uri().path());
    let found = found.filter(|found| found.routes.iter().any(|one| one.method.namespace.service == service));
    let chosen = match &found {
        Some(found) => choose(found, &request)?,
        None => Chosen::Router(None),
    };
    let chosen = match chosen {
        Chosen::Options(allowed) => return Ok(reply::options(&allowed)),
        chosen => chosen,
    };
    let caller = caller_of(gateway, address, path, &chosen, &request).await?;
    match chosen {
        Chosen::Method(route) => {
            let parts = found.and_then(|found| found.parts).ok_or_else(unreadable_path)?;
            method_route::answer(gateway, caller, path, route, parts, request).await
        }
        Chosen::Router(Some(route)) => {
            admit_own(gateway, &caller, route).await?;
            forward::forward(gateway, &caller, path, Some(route.route), host, request).await
        }
        Chosen::Router(None) | Chosen::Options(_) => {
            gateway.admission.admit_path(&caller.source(), prefix).await?;
            forward::forward(gateway, &caller, path, None, host, request).await
        }
    }
}

/// Who answers a request.
enum Chosen {
    /// The method of a route.
    Method(MethodRoute),
    /// The router of the service; with the method that the schemas know it by, if they do.
    Router(Option<MethodRoute>),
    /// The gateway: which HTTP methods the path has.
    Options(String),
}

fn choose(found: &FoundRoutes<'_>, request: &Request<Incoming>) -> Result<Chosen, RpcError> {
    let verb = request.method();
    match found.of(verb.as_str()) {
        Some(one) if one.route.own_answer || one.route.stream && wants_events(request.headers()) => {
            Ok(Chosen::Router(Some(one)))
        }
        Some(one) => Ok(Chosen::Method(one)),
        // The router has methods of its own there, and says which.
        None if found.has_own_answers() => Ok(Chosen::Router(None)),
        None if *verb == Method::OPTIONS => Ok(Chosen::Options(found.allowed())),
        None => Err(reply::not_allowed(&found.allowed())),
    }
}

/// Who sends the request. Where a token is needed or shows more, one that is not valid is refused; elsewhere it is as good as none.
async fn caller_of(
    gateway: &GatewayState,
    address: IpAddr,
    path: &PathAnswer,
    chosen: &Chosen,
    request: &Request<Incoming>,
) -> Result<HttpCaller, RpcError> {
    let does_without = match chosen {
        Chosen::Method(MethodRoute { method, route })
        | Chosen::Router(Some(MethodRoute { method, route })) => {
            route.access.public && method.access != Access::Session
        }
        Chosen::Router(None) | Chosen::Options(_) => path.declared.prefix.access.public,
    };
    match HttpCaller::authenticate(gateway, address, request.headers()).await? {
        Authenticated::Caller(caller) => Ok(caller),
        Authenticated::InvalidToken if does_without => Ok(HttpCaller::unauthenticated(address)),
        Authenticated::InvalidToken => Err(reply::unauthorized("a valid access token is needed")),
    }
}

/// The list for a request whose method the router of the service carries out: its parameters are in the body, which the router reads.
async fn admit_own(
    gateway: &GatewayState,
    caller: &HttpCaller,
    MethodRoute { method, route }: MethodRoute,
) -> Result<(), RpcError> {
    let source = caller.source();
    let call = Call {
        source: &source,
        way: CallWay::Route(route),
        method: CalledMethod::Known(method),
        params: None,
    };
    gateway.admission.admit(call).await.map(|_| ())
}

fn unreadable_path() -> RpcError {
    RpcError::new(kernel::codes::INVALID_REQUEST, "the path is not UTF-8")
}
