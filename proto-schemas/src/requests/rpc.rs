//! Calls of `rpc`: the methods themselves.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::Request;

/// `rpc.discover`: describe every method as an OpenRPC document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Discover {}

impl Request for Discover {
    const METHOD: &'static str = "rpc.discover";
    type Result = OpenRpcDocument;
}

/// Every method, as an OpenRPC document.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenRpcDocument {
    pub openrpc: String,
    pub info: Map<String, Value>,
    pub methods: Vec<Map<String, Value>>,
    pub components: Option<Map<String, Value>>,
    #[serde(rename = "x-events")]
    pub events: Option<Vec<Map<String, Value>>>,
}
