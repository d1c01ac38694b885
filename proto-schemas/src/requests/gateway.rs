//! Calls of `gateway`: what the services and the operator ask of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use super::auth::DeliveryMode;
use crate::Request;

/// `gateway.dispatch_event`: publish an event to agents of any domain.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DispatchEvent {
    pub event_id: String,
    pub event: String,
    pub targets: DispatchTargets,
    pub payload: Box<RawValue>,
}

impl Request for DispatchEvent {
    const METHOD: &'static str = "gateway.dispatch_event";
    type Result = FederatedEvent;
}

/// For whom an event is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DispatchTargets {
    pub aids: Vec<String>,
    pub connection_ids: Option<Vec<String>>,
}

/// The connections that an event is for, and the other domains to which it is relayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FederatedEvent {
    pub delivered: u64,
    pub delivered_devices: Vec<String>,
    pub dropped: u64,
    pub federated: BTreeMap<String, String>,
    pub duplicate: bool,
}

/// `gateway.forward_federation`: have another domain do something.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ForwardFederation {
    pub target_issuer: Option<String>,
    pub target_aid: Option<String>,
    pub namespace: String,
    pub method: String,
    pub params: Box<RawValue>,
    pub caller_aid: Option<String>,
    pub as_service: Option<bool>,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    pub relay_id: Option<String>,
    pub timeout_ms: Option<u64>,
    pub trace: Option<Box<RawValue>>,
}

impl Request for ForwardFederation {
    const METHOD: &'static str = "gateway.forward_federation";
    type Result = ForwardedCall;
}

/// What the other domain answered.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ForwardedCall {
    pub result: Box<RawValue>,
    pub target_issuer: String,
    pub relay_id: String,
    pub elapsed_ms: u64,
}

/// `gateway.forward_federation_batch`: have another domain do several things.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ForwardFederationBatch {
    pub target_issuer: Option<String>,
    pub target_aid: Option<String>,
    pub items: Vec<ForwardItem>,
    pub timeout_ms: Option<u64>,
}

impl Request for ForwardFederationBatch {
    const METHOD: &'static str = "gateway.forward_federation_batch";
    type Result = ForwardedCalls;
}

/// One call of a batch.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ForwardItem {
    pub namespace: String,
    pub method: String,
    pub params: Box<RawValue>,
    pub caller_aid: Option<String>,
    pub as_service: Option<bool>,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    pub relay_id: Option<String>,
    pub timeout_ms: Option<u64>,
    pub trace: Option<Box<RawValue>>,
}

/// How each call ended, in their order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ForwardedCalls {
    pub results: Vec<ForwardedItem>,
    pub target_issuer: String,
}

/// How one call of a batch ended.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ForwardedItem {
    pub ok: bool,
    pub result: Option<Box<RawValue>>,
    pub error: Option<Box<RawValue>>,
}

/// `gateway.peers`: list the peers of this gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peers {}

impl Request for Peers {
    const METHOD: &'static str = "gateway.peers";
    type Result = PeerList;
}

/// The peers of this gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerList {
    pub peers: Vec<ListedPeer>,
}

/// A peer, its links and its queue.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListedPeer {
    pub issuer: String,
    pub outbound: String,
    pub inbound: u64,
    #[serialize_always]
    pub url: Option<String>,
    pub waiting: u64,
    pub waiting_bytes: u64,
    pub in_flight: u64,
    pub oldest_ms: u64,
    pub relayed: u64,
    pub failed: u64,
    #[serialize_always]
    pub last_error: Option<String>,
    pub retry_in_ms: Option<u64>,
}

/// `gateway.test_peer`: test the connection to another domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestPeer {
    pub issuer: String,
}

impl Request for TestPeer {
    const METHOD: &'static str = "gateway.test_peer";
    type Result = PeerTest;
}

/// How far the connection to another domain got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerTest {
    pub ok: bool,
    pub steps: Vec<PeerTestStep>,
}

/// One step of the test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerTestStep {
    pub step: String,
    pub ok: bool,
    pub detail: String,
    pub elapsed_ms: u64,
}

/// `gateway.query_sessions`: list the sessions of an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuerySessions {
    pub aid: String,
    pub device_id: Option<String>,
    pub long_only: Option<bool>,
}

impl Request for QuerySessions {
    const METHOD: &'static str = "gateway.query_sessions";
    type Result = AgentSessions;
}

/// The sessions of an agent on all gateways.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentSessions {
    pub online: bool,
    pub sessions: Vec<AgentSession>,
}

/// One session of an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentSession {
    pub connection_id: String,
    pub aid: String,
    pub device_id: String,
    pub slot_id: String,
    pub kind: String,
    pub created_at_ms: i64,
    pub delivery_mode: DeliveryMode,
    pub capabilities: Option<Map<String, Value>>,
}

/// `gateway.status`: how this gateway does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {}

impl Request for Status {
    const METHOD: &'static str = "gateway.status";
    type Result = GatewayStatus;
}

/// The connections of this gateway, and what it reaches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GatewayStatus {
    pub issuer: String,
    pub version: String,
    pub uptime_ms: u64,
    pub connections: u64,
    pub agents: u64,
    pub long_sessions: u64,
    pub short_sessions: u64,
    pub domain_sessions: u64,
    pub outbox_bytes: u64,
    pub namespaces: BTreeMap<String, String>,
}
