//! Turning a socket into a session.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::Request;

/// `auth.connect`: turn this socket into a session.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connect {
    pub nonce: String,
    pub auth: ConnectProof,
    pub protocol: Option<ProtocolRange>,
    pub device: Option<ConnectingDevice>,
    pub client: Option<ConnectingClient>,
    pub delivery_mode: Option<DeliveryMode>,
    pub capabilities: Option<Map<String, Value>>,
    pub options: Option<ConnectWishes>,
    pub extra_info: Option<Map<String, Value>>,
}

impl Request for Connect {
    const METHOD: &'static str = "auth.connect";
    type Result = ConnectedSession;
}

/// How the client proves its AID.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectProof {
    pub method: String,
    pub token: Option<String>,
}

/// The device that the client runs on.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectingDevice {
    pub id: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// The client itself.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectingClient {
    pub slot_id: Option<String>,
    pub sdk_lang: Option<String>,
    pub sdk_version: Option<String>,
}

/// What kind of connection it is to be.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectWishes {
    pub kind: Option<String>,
    pub short_ttl_ms: Option<u64>,
}

/// The session that the socket has become.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectedSession {
    pub status: String,
    pub protocol: String,
    pub server_time: f64,
    pub authenticated: bool,
    pub identity: SessionIdentity,
    pub trust_level: Option<String>,
    pub connection: SessionConnection,
    #[serde(rename = "bridgeInfo")]
    pub bridge_info: Option<BridgeInfo>,
    pub heartbeat_interval: Option<u64>,
    pub capabilities: SessionCapabilities,
}

/// Who the session is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionIdentity {
    pub aid: String,
    pub role: Option<String>,
    pub module_id: Option<String>,
}

/// The connection of the session.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionConnection {
    pub id: String,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
    pub kind: String,
}

/// The server, as it calls itself.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BridgeInfo {
    pub name: Option<String>,
    pub version: Option<String>,
}

/// What the server offers in this session.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionCapabilities {
    pub namespaces: Vec<String>,
    pub features: Option<Map<String, Value>>,
    pub p2p_peer_pull_v1: Option<bool>,
}

/// Whether each device gets a message, or one of them.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeliveryMode {
    pub mode: String,
    pub routing: Option<String>,
    pub affinity_ttl_ms: Option<u64>,
}

/// The versions of the protocol that a client speaks.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProtocolRange {
    pub min: Option<String>,
    pub max: Option<String>,
}
