//! Calls before login.

use super::answer::EndedCall;
use crate::admission::strip_reserved;
use crate::frame::RpcRequest;
use crate::gateway::GatewayState;
use futures_util::FutureExt as _;
use serde_json::value::RawValue;
use services::kernel::{Caller, RpcError, timed_out};
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

/// Answers a call of a socket that has no session.
pub async fn unauthenticated_call(
    gateway: &GatewayState,
    address: IpAddr,
    request: &RpcRequest<'_>,
) -> Option<String> {
    let started = Instant::now();
    let limit = gateway.call_timeout();
    let call = AssertUnwindSafe(call_service(gateway, address, request)).catch_unwind();
    let result = match tokio::time::timeout(limit, call).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(RpcError::internal(anyhow::anyhow!("{} panicked", request.method))),
        Err(_) => Err(timed_out(&request.method, limit)),
    };
    let method = gateway.metrics.method(&request.method);
    let ended = EndedCall::now(&gateway.metrics, method, request.id.map(RawValue::get), started);
    ended.finish(result.as_ref().map(|result| result.get()))
}

async fn call_service(
    gateway: &GatewayState,
    address: IpAddr,
    request: &RpcRequest<'_>,
) -> Result<Box<RawValue>, RpcError> {
    let method = gateway.admission.find_public(&request.method)?;
    let params = strip_reserved(request.params.map(ToOwned::to_owned))?;
    gateway.admission.within_rate(address, method, params.as_deref()).await?;
    gateway.mesh.call(Caller::Unauthenticated, method.name, params).await
}
