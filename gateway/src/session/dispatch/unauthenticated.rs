//! Calls before login.

use super::answer::EndedCall;
use crate::admission::{AdmittedCall, Call, CallSource};
use crate::frame::RpcRequest;
use crate::gateway::GatewayState;
use kernel::{Caller, RpcError, catch_panic_of, timed_out};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Instant;

/// Answers a call of a socket that has no session.
pub async fn unauthenticated_call(
    gateway: &GatewayState,
    address: IpAddr,
    request: &RpcRequest<'_>,
) -> Option<String> {
    let started = Instant::now();
    let limit = gateway.call_timeout();
    let call = catch_panic_of(&request.method, call_service(gateway, address, request));
    let result = tokio::time::timeout(limit, call).await;
    let result = result.unwrap_or_else(|_| Err(timed_out(&request.method, limit)));
    let method = gateway.metrics.method(&request.method);
    let ended = EndedCall::now(&gateway.metrics, method, request.id.map(RawValue::get), started);
    ended.finish(result.as_ref().map(|result| result.get()))
}

async fn call_service(
    gateway: &GatewayState,
    address: IpAddr,
    request: &RpcRequest<'_>,
) -> Result<Box<RawValue>, RpcError> {
    let source = CallSource::Unauthenticated { address, connected: true };
    let call = Call::named(&source, &request.method, request.params.map(Cow::Borrowed));
    let AdmittedCall { method, params, claim } = gateway.admission.admit(call).await?;
    let params = params.map(Cow::into_owned);
    let outcome = gateway.mesh.call(Caller::Unauthenticated(Some(address)), method.name, params).await;
    gateway.admission.ended(&source, method, claim, outcome.as_deref());
    outcome
}
