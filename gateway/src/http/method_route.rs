//! A method as one of its routes: a request becomes its parameters, and its result the answer.

use super::caller::HttpCaller;
use super::{PathAnswer, body, call};
use crate::admission::{Call, CalledMethod};
use crate::gateway::GatewayState;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use kernel::http::{MethodRoute, RouteRequest, answer_of};
use kernel::{CallWay, RpcError};
use std::borrow::Cow;
use std::sync::Arc;

pub(super) async fn answer(
    gateway: &Arc<GatewayState>,
    caller: HttpCaller,
    path: &PathAnswer,
    found: MethodRoute,
    parts: Vec<(String, String)>,
    request: Request<Incoming>,
) -> Result<Response, RpcError> {
    let MethodRoute { method, route } = found;
    let (way, called) = (CallWay::Route(route), CalledMethod::Known(method));
    // Before a byte of the body is read.
    gateway.admission.begin(&Call { source: &caller.source(), way, method: called, params: None })?;
    let (head, body) = request.into_parts();
    let most_bytes = route.body_bytes.unwrap_or(path.declared.prefix.body_bytes);
    let body = body::collect(gateway, &caller, body, most_bytes).await?;
    let query = head.uri.query().unwrap_or_default();
    let received = RouteRequest { path: &parts, query, headers: &head.headers, body: &body.bytes };
    let params = received.params(found)?;
    drop(body);
    // In a task of its own, because a call is finished although its client leaves.
    let calling = {
        let gateway = gateway.clone();
        async move {
            let source = caller.source();
            let call = Call { source: &source, way, method: called, params: Some(Cow::Owned(params)) };
            let metrics = gateway.metrics.method(method.name);
            call::make(&gateway, &caller, call, Some(method), metrics).await.outcome
        }
    };
    let result =
        gateway.tracker.spawn(calling).await.unwrap_or_else(|ended| Err(RpcError::internal(ended)))?;
    answer_of(path.envelope, route, &result, &head.headers, &path.ids)
}
