//! Calls of `meta`: the session and the server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::Request;
use crate::requests::ca::TrustList;

/// `meta.capabilities`: get what this server can do right now.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    pub subscribe: Option<bool>,
}

impl Request for Capabilities {
    const METHOD: &'static str = "meta.capabilities";
    type Result = ServerCapabilities;
}

/// What the server can do right now.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCapabilities {
    pub v: u32,
    pub mode: String,
    pub features: Vec<String>,
    #[serde(rename = "featureDetails")]
    pub feature_details: Option<BTreeMap<String, FeatureDetail>>,
    #[serde(rename = "workspaceCwd")]
    pub workspace_cwd: Option<String>,
    pub protocol: ProtocolVersions,
    #[serde(rename = "protocolVersions")]
    pub protocol_versions: ProtocolVersions,
    pub policy: Option<Map<String, Value>>,
    #[serde(rename = "serverVersion")]
    pub server_version: Option<String>,
    #[serde(rename = "modelServices")]
    pub model_services: Option<Vec<String>>,
    pub transports: Option<Vec<String>>,
    pub limits: Option<Map<String, Value>>,
}

/// More about one tag of the features.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FeatureDetail {
    pub since: String,
    pub modes: Option<Vec<String>>,
}

/// `meta.ping`: ask whether the session is alive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ping {}

impl Request for Ping {
    const METHOD: &'static str = "meta.ping";
    type Result = Pong;
}

/// The session is alive.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pong {
    pub pong: bool,
    pub timestamp: f64,
    pub heartbeat_interval: Option<u64>,
}

/// `meta.status`: get the state of this session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {}

impl Request for Status {
    const METHOD: &'static str = "meta.status";
    type Result = SessionStatus;
}

/// The state of the session.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    pub mode: String,
    pub aid: String,
    pub role: String,
    pub connected_at: i64,
    pub protocol_version: String,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
}

/// `meta.trust_roots`: get the signed list of trusted roots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrustRoots {}

impl Request for TrustRoots {
    const METHOD: &'static str = "meta.trust_roots";
    type Result = TrustList;
}

/// The versions of a document that a server speaks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProtocolVersions {
    pub current: String,
    pub supported: Vec<String>,
}
