//! What a client sends without an id, and is never answered.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

/// `notification/route`: pass an application's event on to another agent's connections.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Route {
    pub target: RouteTo,
    pub deliver: RoutedNotification,
    pub ttl_ms: Option<u64>,
}

/// Whose connections hear it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouteTo {
    #[serde(rename = "type")]
    pub kind: String,
    pub aid: String,
    pub device_id: Option<String>,
    pub slot_id: Option<String>,
}

/// What they hear.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoutedNotification {
    pub method: String,
    pub params: Map<String, Value>,
}
