//! What a socket may ask before it logged in, and what whoever registers or logs in is held to.

use super::answer::Answering;
use super::{call_limit, callable};
use crate::frame::Request;
use crate::gateway::Gateway;
use crate::params;
use proto_schemas::{Access, Method, Rate};
use serde::Deserialize;
use serde_json::value::RawValue;
use services::kernel::{Aid, Caller, RpcError, catch_panic_of, codes, timed_out};
use std::net::IpAddr;
use std::time::Instant;

/// What a socket may ask before it logged in.
pub async fn unauthenticated_call(
    gateway: &Gateway,
    address: IpAddr,
    request: &Request<'_>,
) -> Option<String> {
    let started = Instant::now();
    let limit = call_limit(gateway);
    let call = catch_panic_of(&request.method, ask_unauthenticated(gateway, address, request));
    let result = tokio::time::timeout(limit, call).await;
    let result = result.unwrap_or_else(|_| Err(timed_out(&request.method, limit)));
    let method = gateway.metrics.method(&request.method);
    let answering = Answering::now(&gateway.metrics, method, request.id.map(RawValue::get), started);
    answering.finish(result.as_ref().map(|result| result.get()))
}

async fn ask_unauthenticated(
    gateway: &Gateway,
    address: IpAddr,
    request: &Request<'_>,
) -> Result<Box<RawValue>, RpcError> {
    let method = proto_schemas::find(&request.method).filter(|method| method.access == Access::Public);
    let Some(method) = method else {
        let sentence = "log in first: only registration, login and auth.connect are answered before that";
        return Err(RpcError::new(codes::NOT_INITIALIZED, sentence));
    };
    callable(gateway, method.name)?;
    let params = params::clean(request.params.map(ToOwned::to_owned))?;
    within_rate(gateway, address, method, params.as_deref()).await?;
    gateway.mesh.call(Caller::Unauthenticated, method.name, params).await
}

/// Registrations and logins have limits of their own, whether they come before login or after it.
pub(super) async fn within_rate(
    gateway: &Gateway,
    address: IpAddr,
    method: &Method,
    params: Option<&RawValue>,
) -> Result<(), RpcError> {
    // Boxed, so that a call without such a limit does not carry the weight of one.
    match method.rate {
        Rate::Register => Box::pin(gateway.limits.registration(address)).await,
        Rate::Login => Box::pin(limit_login(gateway, address, params)).await,
        Rate::Call | Rate::Ping => Ok(()),
    }
}

async fn limit_login(gateway: &Gateway, address: IpAddr, params: Option<&RawValue>) -> Result<(), RpcError> {
    #[derive(Deserialize)]
    struct Whose {
        aid: Aid,
    }
    // A login that names nobody is the service's to refuse.
    let Ok(Whose { aid }) = serde_json::from_str(params.map_or("{}", RawValue::get)) else { return Ok(()) };
    gateway.limits.login(address, aid).await
}
