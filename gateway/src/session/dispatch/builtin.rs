//! The methods that the gateway answers itself.

use super::answer::EndedCall;
use super::{Handled, notification_route};
use crate::admission::{Admission, Call, within_agent_rate};
use crate::connection::{Connection, OpenSession};
use crate::frame::{self, RpcRequest};
use crate::gateway::GatewayState;
use crate::session::greeting::SESSION_ROLE;
use kernel::{RpcError, codes, read_params};
use proto_schemas::Request as _;
use proto_schemas::requests::meta;
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Takes the first steps of admission, and answers the call unless it has to be checked further or a service has to.
pub fn answer(
    gateway: &GatewayState,
    connection: &Connection,
    open: &OpenSession,
    request: &RpcRequest<'_>,
    started: Instant,
) -> Handled {
    let source = open.source();
    let call = Call::named(&source, &request.method, request.params.map(Cow::Borrowed));
    let result = match gateway.admission.begin(&call) {
        Ok(method) if !Admission::is_finished(method, request.params) => return Handled::NeedsTask(method),
        Ok(method) => match result(gateway, connection, open, request) {
            Ok(None) => return Handled::NeedsTask(method),
            Ok(Some(result)) => Ok(result),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    let method = gateway.metrics.method(&request.method);
    let id = request.id.map(RawValue::get);
    Handled::Now(EndedCall::now(&gateway.metrics, method, id, started).finish(result.as_deref()))
}

/// The result, `None` if a service has to answer, or the error. The result of a notification is not sent.
pub fn result(
    gateway: &GatewayState,
    connection: &Connection,
    open: &OpenSession,
    request: &RpcRequest<'_>,
) -> Result<Option<String>, RpcError> {
    match &*request.method {
        "meta.ping" => Ok(Some(format!("{{\"pong\":true,\"timestamp\":{}}}", gateway.clock.now_seconds()))),
        "meta.status" => Ok(Some(status(open))),
        "meta.capabilities" => capabilities(gateway, connection, request).map(Some),
        "rpc.discover" => Ok(Some(gateway.admission.openrpc().to_string())),
        "auth.connect" => Err(RpcError::new(codes::INVALID_REQUEST, "this connection is already logged in")),
        "notification/route" => {
            notification_route::route(gateway, open, request).map(|()| Some("null".to_owned()))
        }
        _ => Ok(None),
    }
}

/// The most frequent call of all, in its usual form: one allocation, no look-up, and no duration worth measuring.
pub fn ping(gateway: &GatewayState, open: &OpenSession, id: Option<&RawValue>) -> Option<String> {
    let metrics = &gateway.metrics;
    if let Err(error) = within_agent_rate(&open.limit) {
        let method = metrics.method("meta.ping");
        let ended = EndedCall::now(metrics, method, id.map(RawValue::get), Instant::now());
        return ended.finish(Err(&error));
    }
    metrics.pings.inc();
    Some(frame::pong(id?, gateway.clock.now_seconds()))
}

fn status(open: &OpenSession) -> String {
    json!({
        "mode": "gateway",
        "aid": open.session.aid,
        "role": SESSION_ROLE,
        "connected_at": open.session.connected_at_ms,
        "protocol_version": "1.0",
        "device_id": open.session.device,
        "slot_id": open.session.slot,
    })
    .to_string()
}

fn capabilities(
    gateway: &GatewayState,
    connection: &Connection,
    request: &RpcRequest<'_>,
) -> Result<String, RpcError> {
    let params: meta::Capabilities = read_params(meta::Capabilities::METHOD, request.params)?;
    if let Some(subscribe) = params.subscribe {
        connection.wants_capabilities.store(subscribe, Ordering::Relaxed);
    }
    Ok(gateway.admission.capabilities().to_string())
}
