//! What a service asks of the gateway where an agent is of another domain: the gateway owns the peer links.

use super::rpc::PendingAnswer;
use super::{Aid, DeviceId, RpcError, Session, SlotId, Trace};
use proto_schemas::Request;
use proto_schemas::requests::gateway;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;

/// The gateway as the mesh sees it, for calls to other domains. Where it is in the same process as the service, such a call
/// is not written as JSON, and needs no timer of its own: the owner of the peer links answers a call that takes too long.
pub trait Forwarder: Send + Sync {
    /// The same as `gateway.forward_federation`. Once this returns, the call is in the order of the peer's queue.
    fn forward(self: Arc<Self>, service: &str, forward: Forward) -> PendingAnswer<Box<RawValue>>;
}

/// The parameters of `gateway.forward_federation`: one call to another domain, in the name of an agent of ours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Forward {
    /// Left out inside a batch, which has one for all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target_issuer: String,
    pub namespace: String,
    /// Without its namespace: `send`, `v2.bootstrap`.
    pub method: String,
    pub params: Box<RawValue>,
    pub caller_aid: Aid,
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
    pub target_issuer: String,
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
        let (namespace, method) = method.split_once('.').unwrap_or((method, ""));
        Ok(Forward {
            target_issuer: issuer.to_owned(),
            namespace: namespace.to_owned(),
            method: method.to_owned(),
            params: to_raw_value(params).map_err(RpcError::internal)?,
            caller_aid: speaker.aid.clone(),
            device_id: speaker.device.clone(),
            slot_id: speaker.slot.clone(),
            relay_id: None,
            timeout_ms: None,
            trace: speaker.trace.clone(),
        })
    }
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
