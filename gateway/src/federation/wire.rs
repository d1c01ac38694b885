//! The frames between two gateways, after hello.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use services::kernel::{Ids, RpcError, Trace};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a relay is beside what it carries, about.
const AROUND: usize = 384;

/// The parameters of `federation.relay`, and one item of `federation.relay_batch`. What is only carried stays where it
/// was written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Relay<'a> {
    #[serde(borrow)]
    pub relay_id: Cow<'a, str>,
    #[serde(default)]
    pub kind: Kind,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub namespace: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub method: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Caller<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub params: Option<&'a RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<Targets>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<&'a RawValue>,
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
pub struct Caller<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Cow<'a, str>,
    #[serde(borrow)]
    pub aid: Cow<'a, str>,
    #[serde(borrow, default)]
    pub device_id: Cow<'a, str>,
    #[serde(borrow, default)]
    pub slot_id: Cow<'a, str>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Targets {
    pub aids: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub slot_id: String,
}

/// A relay as it is sent, but for the time that is left for it.
pub struct Text {
    pub relay_id: String,
    pub text: String,
}

impl Relay<'_> {
    pub fn text(&self) -> Result<Text, RpcError> {
        let carried = [self.params, self.payload].into_iter().flatten();
        let bytes: usize = carried.map(|raw| raw.get().len()).sum();
        let mut text = Vec::with_capacity(bytes + AROUND);
        serde_json::to_writer(&mut text, self).map_err(RpcError::internal)?;
        let text = String::from_utf8(text).map_err(RpcError::internal)?;
        Ok(Text { relay_id: self.relay_id.clone().into_owned(), text })
    }
}

/// Names for relays: what tells ours from everybody else's is drawn once, and the rest is counted.
pub struct RelayIds {
    life: String,
    next: AtomicU64,
}

impl RelayIds {
    pub fn new(ids: &Ids) -> RelayIds {
        RelayIds { life: ids.tagged("r"), next: AtomicU64::new(0) }
    }

    pub fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut id = String::with_capacity(self.life.len() + 21);
        id.push_str(&self.life);
        id.push('-');
        id.push_str(itoa::Buffer::new().format(number));
        id
    }
}
