//! Calls of `meta`: the session and the server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::requests::ca::TrustList;
use crate::{Aid, Request, Signal};

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

/// `meta.account`: what this server keeps for the calling agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {}

impl Request for Account {
    const METHOD: &'static str = "meta.account";
    type Result = AgentAccount;
}

/// What all namespaces keep for an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentAccount {
    pub aid: Aid,
    pub bytes: i64,
    pub bytes_limit: i64,
    pub namespaces: Vec<NamespaceAccount>,
}

/// What one namespace keeps for an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamespaceAccount {
    pub namespace: String,
    pub bytes: i64,
    pub rows: i64,
    pub bytes_limit: i64,
    pub rows_limit: i64,
}

/// What one service keeps for an agent, for all agents of another domain, or for a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptAccount {
    pub payer: String,
    pub bytes: i64,
    pub rows: i64,
    pub bytes_limit: i64,
    pub rows_limit: i64,
}

/// `{namespace}.account` answers with this.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceAccounts {
    pub accounts: Vec<KeptAccount>,
    pub corrected: Option<i64>,
}

/// `meta.accounts_told`: a service tells the others what it keeps for the agents that have much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccountsTold {
    pub service: String,
    pub agents: Vec<(Aid, i64)>,
}

impl Signal for AccountsTold {
    const NAME: &'static str = "meta.accounts_told";
}
