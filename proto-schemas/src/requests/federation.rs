//! Calls of `federation`: between the gateways of two domains.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::{Request, Signal};

/// `federation.hello`: a gateway proves its domain.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    pub version: String,
    pub from_issuer: String,
    pub to_issuer: String,
    pub gateway_aid: String,
    pub cert: String,
    pub chain: Vec<String>,
    pub server_nonce: String,
    pub client_nonce: String,
    pub timestamp: i64,
    pub features: Option<Map<String, Value>>,
    pub signature: String,
}

impl Request for Hello {
    const METHOD: &'static str = "federation.hello";
    type Result = HelloAnswer;
}

/// The proof of the gateway that was called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HelloAnswer {
    pub status: String,
    pub version: String,
    pub issuer: String,
    pub gateway_aid: String,
    pub cert: String,
    pub chain: Vec<String>,
    pub session_id: String,
    pub timestamp: i64,
    pub client_nonce: String,
    pub namespaces: Vec<String>,
    pub limits: Map<String, Value>,
    pub signature: String,
}

/// `federation.relay`: a call that comes from another domain.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Relay {
    pub relay_id: String,
    pub kind: Option<String>,
    pub namespace: Option<String>,
    pub method: Option<String>,
    pub params: Option<Box<RawValue>>,
    pub caller: Option<RelayedCaller>,
    pub event: Option<String>,
    pub event_id: Option<String>,
    pub targets: Option<Box<RawValue>>,
    pub payload: Option<Box<RawValue>>,
    pub hop: u32,
    pub depth: Option<u64>,
    pub deadline_ms: Option<u64>,
    pub trace: Option<Box<RawValue>>,
}

impl Request for Relay {
    const METHOD: &'static str = "federation.relay";
    type Result = RelayedResult;
}

/// In whose name a call is relayed.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelayedCaller {
    #[serde(rename = "type")]
    pub kind: String,
    pub aid: String,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
}

/// How a relayed call ended.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RelayedResult {
    pub relay_id: String,
    pub ok: bool,
    pub result: Option<Box<RawValue>>,
    pub error: Option<Box<RawValue>>,
}

/// `federation.relay_batch`: many calls that come from another domain.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RelayBatch {
    pub batch_id: String,
    pub items: Vec<Relay>,
    pub deadline_ms: Option<u64>,
}

impl Request for RelayBatch {
    const METHOD: &'static str = "federation.relay_batch";
    type Result = RelayedBatch;
}

/// How each call of a batch ended, in their order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RelayedBatch {
    pub batch_id: String,
    pub results: Vec<RelayedBatchItem>,
}

/// How one call of a batch ended.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RelayedBatchItem {
    pub relay_id: String,
    pub ok: bool,
    pub result: Option<Box<RawValue>>,
    pub error: Option<Box<RawValue>>,
    pub refused: Option<bool>,
}

/// `federation.peer_up`: the gateway of another domain was proved, by a link that either side opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerUp {
    pub issuer: String,
}

impl Signal for PeerUp {
    const NAME: &'static str = "federation.peer_up";
}
