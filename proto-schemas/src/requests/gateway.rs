//! Calls of `gateway`: what the services and the operator ask of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::auth::DeliveryMode;
use crate::{Aid, DeviceId, Request, SlotId};

/// `gateway.dispatch_event`: publish an event to agents of any domain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DispatchEvent {
    pub event_id: String,
    /// Without `event/`: `message.ack`.
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
    pub aids: Vec<Aid>,
    /// Only these of their connections, where it is given. The ids are those that `auth.connect` and
    /// `gateway.query_sessions` answer with.
    pub connection_ids: Option<Vec<String>>,
}

/// The connections that an event is for, and the other domains to which it is relayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FederatedEvent {
    pub delivered: usize,
    pub delivered_devices: Vec<DeviceId>,
    pub dropped: usize,
    pub federated: BTreeMap<String, String>,
    pub duplicate: bool,
}

/// `gateway.forward_federation`: have another domain do something, in the name of an agent of ours or of the service that asks
/// for it. How many relays led to it is not among the members: the gateway knows that from the caller.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForwardFederation {
    /// Either the domain or an agent of it. Both are left out inside a batch, which has one target for all.
    pub target_issuer: Option<String>,
    pub target_aid: Option<Aid>,
    pub namespace: String,
    /// Without its namespace: `send`, `v2.bootstrap`.
    pub method: String,
    pub params: Box<RawValue>,
    /// In whose name, unless the service calls in its own.
    pub caller_aid: Option<Aid>,
    pub as_service: Option<bool>,
    pub device_id: Option<DeviceId>,
    pub slot_id: Option<SlotId>,
    /// The same for every retry of the same call.
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
    /// Either the domain or an agent of it.
    pub target_issuer: Option<String>,
    pub target_aid: Option<Aid>,
    pub items: Vec<ForwardFederation>,
    pub timeout_ms: Option<u64>,
}

impl Request for ForwardFederationBatch {
    const METHOD: &'static str = "gateway.forward_federation_batch";
    type Result = ForwardedCalls;
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
    pub outbound: OutboundState,
    pub inbound: usize,
    #[serialize_always]
    pub url: Option<String>,
    pub waiting: usize,
    pub waiting_bytes: usize,
    pub in_flight: usize,
    pub oldest_ms: u64,
    pub relayed: u64,
    pub failed: u64,
    #[serialize_always]
    pub last_error: Option<String>,
    pub retry_in_ms: Option<u64>,
}

/// The state of our link to a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutboundState {
    /// Nothing was ever queued for it.
    #[default]
    None,
    Idle,
    Connecting,
    Up,
    Down,
}

impl OutboundState {
    pub fn as_str(self) -> &'static str {
        match self {
            OutboundState::None => "none",
            OutboundState::Idle => "idle",
            OutboundState::Connecting => "connecting",
            OutboundState::Up => "up",
            OutboundState::Down => "down",
        }
    }
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuerySessions {
    pub aid: Aid,
    pub device_id: Option<DeviceId>,
    pub long_only: Option<bool>,
}

impl Request for QuerySessions {
    const METHOD: &'static str = "gateway.query_sessions";
    type Result = AgentSessions;
}

/// The sessions of an agent on all gateways.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AgentSessions {
    pub online: bool,
    pub sessions: Vec<AgentSession>,
}

/// One session of an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentSession {
    pub connection_id: String,
    pub aid: Aid,
    pub device_id: DeviceId,
    pub slot_id: SlotId,
    pub kind: String,
    pub created_at_ms: i64,
    pub delivery_mode: DeliveryMode,
    pub capabilities: Option<Box<RawValue>>,
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
    pub uptime_ms: i64,
    pub connections: usize,
    pub agents: usize,
    pub long_sessions: usize,
    pub short_sessions: usize,
    pub domain_sessions: usize,
    pub client_addresses: ClientAddresses,
    pub outbox_bytes: usize,
    pub namespaces: BTreeMap<String, String>,
}

/// The addresses that clients with a session seem to have.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientAddresses {
    pub sessions: usize,
    /// Those that come from a private address, loopback among them.
    pub private_sessions: usize,
    /// The address that most of them have, and how many have it.
    pub largest: Option<String>,
    pub largest_sessions: usize,
}
