//! What a service asks of the gateway where an agent is of another domain: the gateway owns the peer links.

use super::rpc::PendingAnswer;
use super::{Aid, Caller, DeviceId, RpcError, Session, SlotId, Trace};
use proto_schemas::Request;
use proto_schemas::requests::gateway;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;

/// The gateway as the mesh sees it, for calls to other domains. Where it is in the same process as the service, such a call
/// is not written as JSON, and needs no timer of its own: the owner of the peer links answers a call that takes too long.
pub trait Forwarder: Send + Sync {
    /// The same as `gateway.forward_federation`. Once this returns, the call is in the order of the peer's queue.
    fn forward(self: Arc<Self>, caller: &Caller, forward: Forward) -> PendingAnswer<Box<RawValue>>;
}

/// The parameters of `gateway.forward_federation`: one call to another domain, in the name of an agent of ours or of the
/// service that asks for it. How many relays led to it is not among them: the gateway knows that from the caller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Forward {
    /// Either the domain or an agent of it. Both are left out inside a batch, which has one target for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_issuer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_aid: Option<Aid>,
    pub namespace: String,
    /// Without its namespace: `send`, `v2.bootstrap`.
    pub method: String,
    pub params: Box<RawValue>,
    /// In whose name, unless the service calls in its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller_aid: Option<Aid>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub as_service: bool,
    #[serde(default)]
    pub device_id: DeviceId,
    #[serde(default)]
    pub slot_id: SlotId,
    /// The same for every retry of the same call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Forwarded {
    pub result: Box<RawValue>,
    pub target_issuer: String,
    pub relay_id: String,
    pub elapsed_ms: u64,
}

/// The parameters of `gateway.forward_federation_batch`: all to one domain, answered in the same order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForwardBatch {
    /// Either the domain or an agent of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_issuer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_aid: Option<Aid>,
    pub items: Vec<Forward>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ForwardedBatch {
    pub results: Vec<ForwardOutcome>,
    pub target_issuer: String,
}

/// How one call of a batch ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct ForwardOutcome {
    pub ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

/// The parameters of `gateway.dispatch_event`: an event for agents of this domain and others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DispatchEvent {
    pub event_id: String,
    /// Without `event/`: `message.ack`.
    pub event: String,
    pub targets: EventTargets,
    pub payload: Box<RawValue>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventTargets {
    pub aids: Vec<Aid>,
    /// Only these of their connections, where it is given. The ids are those that `auth.connect` and
    /// `gateway.query_sessions` answer with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_ids: Option<Vec<String>>,
}

impl Request for Forward {
    const METHOD: &'static str = gateway::ForwardFederation::METHOD;
    type Result = Forwarded;
}

impl Request for ForwardBatch {
    const METHOD: &'static str = gateway::ForwardFederationBatch::METHOD;
    type Result = ForwardedBatch;
}

impl Request for DispatchEvent {
    const METHOD: &'static str = gateway::DispatchEvent::METHOD;
    type Result = gateway::FederatedEvent;
}

impl Forward {
    /// A call in the name of the agent that calls us.
    pub fn new(
        speaker: &Session,
        issuer: &str,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Forward, RpcError> {
        Ok(Forward {
            caller_aid: Some(speaker.aid.clone()),
            as_service: false,
            device_id: speaker.device.clone(),
            slot_id: speaker.slot.clone(),
            // Only its name crosses: what was measured here says nothing to another domain.
            trace: speaker.trace.as_ref().map(|call| call.trace.clone()),
            ..Forward::of_service(issuer, method, params)?
        })
    }

    /// A call of the service in its own name. Because of a call that came from another domain, a service can make no other.
    pub fn of_service(issuer: &str, method: &str, params: &impl Serialize) -> Result<Forward, RpcError> {
        let (namespace, method) = method.split_once('.').unwrap_or((method, ""));
        Ok(Forward {
            target_issuer: Some(issuer.to_owned()),
            target_aid: None,
            namespace: namespace.to_owned(),
            method: method.to_owned(),
            params: to_raw_value(params).map_err(RpcError::internal)?,
            caller_aid: None,
            as_service: true,
            device_id: DeviceId::default(),
            slot_id: SlotId::default(),
            relay_id: None,
            timeout_ms: None,
            trace: None,
        })
    }
}

/// Left out where it is false, as most of them are.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl ForwardOutcome {
    pub fn into_result(self) -> Result<Box<RawValue>, RpcError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.result.unwrap_or_else(|| RawValue::NULL.to_owned())),
        }
    }
}

impl From<Result<Box<RawValue>, RpcError>> for ForwardOutcome {
    fn from(result: Result<Box<RawValue>, RpcError>) -> ForwardOutcome {
        match result {
            Ok(result) => ForwardOutcome { ok: true, result: Some(result), error: None },
            Err(error) => ForwardOutcome { ok: false, result: None, error: Some(error) },
        }
    }
}
