//! What a service asks of the gateway where an agent lives in another domain: the gateway owns the links.

use super::rpc::Answering;
use super::{Aid, Caller, DeviceId, Mesh, RpcError, Session, SlotId, Trace};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;
use std::time::Duration;

/// The longest a call to another domain may take.
const LONGEST: Duration = Duration::from_secs(25);

/// The way to other domains, as the mesh sees it. Where the gateway is in the same process as the service, what is asked of it
/// needs no text in between, and no clock: whoever owns the links tells those who waited too long.
pub trait Forwarder: Send + Sync {
    /// The same as `gateway.forward_federation`. Once this returns, the call has its place in the order.
    fn forward(self: Arc<Self>, service: &str, forward: Forward) -> Answering<Box<RawValue>>;
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
    /// The same again for the same call, where it is tried a second time.
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
    pub results: Vec<Outcome>,
    pub target_issuer: String,
}

/// How one call of a batch ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

/// The parameters of `gateway.dispatch_event`: something for agents of this domain and others to hear of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Notice {
    pub event_id: String,
    /// Without `event/`: `message.ack`.
    pub event: String,
    pub targets: Targets,
    pub payload: Box<RawValue>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Targets {
    pub aids: Vec<Aid>,
}

impl Forward {
    /// A call in the name of whoever is asking us.
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

impl Outcome {
    pub fn into_result(self) -> Result<Box<RawValue>, RpcError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.result.unwrap_or_else(|| RawValue::NULL.to_owned())),
        }
    }
}

impl From<Result<Box<RawValue>, RpcError>> for Outcome {
    fn from(result: Result<Box<RawValue>, RpcError>) -> Outcome {
        match result {
            Ok(result) => Outcome { ok: true, result: Some(result), error: None },
            Err(error) => Outcome { ok: false, result: None, error: Some(error) },
        }
    }
}

impl Mesh {
    pub fn set_forwarder(&self, forwarder: Arc<dyn Forwarder>) {
        *self.forwarder.write() = Some(forwarder);
    }

    /// Has another domain do something. What fails over there fails here with the same code.
    pub fn forward(self: &Arc<Self>, service: &str, forward: Forward) -> Answering<Box<RawValue>> {
        if let Some(forwarder) = self.forwarder.read().clone() {
            return forwarder.forward(service, forward);
        }
        let (mesh, caller) = (self.clone(), Caller::service(service));
        Box::pin(async move {
            let asked = mesh.ask_for(caller, "gateway.forward_federation", &forward, LONGEST);
            let Forwarded { result, .. } = asked.await?;
            Ok(result)
        })
    }

    /// The same for many calls to one domain.
    pub async fn forward_batch(
        &self,
        service: &str,
        batch: &ForwardBatch,
    ) -> Result<ForwardedBatch, RpcError> {
        self.ask_for(Caller::service(service), "gateway.forward_federation_batch", batch, LONGEST).await
    }

    /// Rings the bell of agents wherever they live. Whoever cannot be reached now does not hear it.
    pub async fn dispatch(&self, service: &str, notice: &Notice) -> Result<(), RpcError> {
        let _: Box<RawValue> =
            self.ask_for(Caller::service(service), "gateway.dispatch_event", notice, LONGEST).await?;
        Ok(())
    }
}
