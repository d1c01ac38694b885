//! The frames between two gateways, after hello.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use services::kernel::Trace;

/// The parameters of `federation.relay`, and one item of `federation.relay_batch`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Relay {
    pub relay_id: String,
    #[serde(default)]
    pub kind: Kind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub method: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Caller>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<Targets>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
    #[serde(default)]
    pub hop: u64,
    #[serde(default)]
    pub depth: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Rpc,
    Event,
}

/// In whose name, as the other gateway says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Caller {
    #[serde(rename = "type")]
    pub kind: String,
    pub aid: String,
    #[serde(default)]
    pub device_id: String,
    #[serde(default)]
    pub slot_id: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Targets {
    pub aids: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub slot_id: String,
}
