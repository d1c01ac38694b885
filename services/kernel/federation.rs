//! What a service asks of the gateway where an agent is of another domain: the gateway owns the peer links.

use super::rpc::PendingAnswer;
use super::{Caller, CallingAgent, DeviceId, RpcError, SlotId};
use proto_schemas::requests::gateway::{ForwardFederation, ForwardedItem};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;

/// The gateway as the mesh sees it, for calls to other domains. Where it is in the same process as the service, such a call
/// is not written as JSON, and needs no timer of its own: the owner of the peer links answers a call that takes too long.
pub trait Forwarder: Send + Sync {
    /// The same as `gateway.forward_federation`. Once this returns, the call is in the order of the peer's queue.
    fn forward(self: Arc<Self>, caller: &Caller, forward: ForwardFederation) -> PendingAnswer<Box<RawValue>>;
}

/// A call to another domain in the name of the agent that calls us.
pub fn forward_for_agent(
    speaker: &CallingAgent,
    issuer: &str,
    method: &str,
    params: &impl Serialize,
) -> Result<ForwardFederation, RpcError> {
    // Only its name crosses: what was measured here says nothing to another domain.
    let trace = speaker.trace.as_ref().map(|call| to_raw_value(&call.trace)).transpose();
    Ok(ForwardFederation {
        caller_aid: Some(speaker.aid.clone()),
        as_service: None,
        device_id: Some(speaker.device.clone()),
        slot_id: Some(speaker.slot.clone()),
        trace: trace.map_err(RpcError::internal)?,
        ..forward_for_service(issuer, method, params)?
    })
}

/// A call to another domain in the name of the service. Because of a call that came from another domain, a service can make no
/// other.
pub fn forward_for_service(
    issuer: &str,
    method: &str,
    params: &impl Serialize,
) -> Result<ForwardFederation, RpcError> {
    let (namespace, method) = method.split_once('.').unwrap_or((method, ""));
    Ok(ForwardFederation {
        target_issuer: Some(issuer.to_owned()),
        target_aid: None,
        namespace: namespace.to_owned(),
        method: method.to_owned(),
        params: to_raw_value(params).map_err(RpcError::internal)?,
        caller_aid: None,
        as_service: Some(true),
        device_id: Some(DeviceId::default()),
        slot_id: Some(SlotId::default()),
        relay_id: None,
        timeout_ms: None,
        trace: None,
    })
}

/// How a call of a batch ended, as it is answered.
pub fn forwarded_item(outcome: Result<Box<RawValue>, RpcError>) -> ForwardedItem {
    match outcome {
        Ok(result) => ForwardedItem { ok: true, result: Some(result), error: None },
        Err(error) => ForwardedItem { ok: false, result: None, error: to_raw_value(&error).ok() },
    }
}

/// How a call of a batch ended, as its caller reads it.
pub fn forwarded_result(item: ForwardedItem) -> Result<Box<RawValue>, RpcError> {
    if item.ok {
        return Ok(item.result.unwrap_or_else(|| RawValue::NULL.to_owned()));
    }
    let error = item.error.as_deref().unwrap_or(RawValue::NULL);
    Err(serde_json::from_str(error.get()).unwrap_or_else(RpcError::internal))
}
