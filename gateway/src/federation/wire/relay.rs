//! The parameters of `federation.relay` and `federation.relay_batch`.

use crate::federation::errors::refused;
use kernel::{Ids, RpcError, Trace};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

/// A relayed call may lead to another one, but not without end.
const MOST_DEPTH: u64 = 2;

/// About the size of a relay without its parameters or payload.
const AROUND: usize = 384;

/// The parameters of `federation.relay`, and one item of `federation.relay_batch`. What is only passed on is
/// borrowed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Relay<'a> {
    #[serde(borrow)]
    pub relay_id: Cow<'a, str>,
    #[serde(default)]
    pub kind: RelayKind,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub namespace: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub method: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<RelayCaller<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub params: Option<&'a RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<RelayEventTargets>,
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
pub enum RelayKind {
    #[default]
    Rpc,
    Event,
}

/// The agent or service in whose name a relay is, as its gateway says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RelayCaller<'a> {
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
pub struct RelayEventTargets {
    pub aids: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub slot_id: String,
}

/// A relay as it is sent, without the time that is left for it.
pub struct RelayText {
    pub relay_id: String,
    pub text: String,
}

impl RelayCaller<'_> {
    /// A service that calls in its own name.
    pub fn service(name: &str, issuer: &str) -> RelayCaller<'static> {
        let aid = format!("{name}.{issuer}").into();
        RelayCaller { kind: "service".into(), aid, device_id: "".into(), slot_id: "".into() }
    }
}

/// Checked on both sides: no relay is sent that the other gateway has to refuse.
pub fn check_depth(depth: u64) -> Result<(), RpcError> {
    match depth <= MOST_DEPTH {
        true => Ok(()),
        false => Err(refused("depth", format!("depth must be at most {MOST_DEPTH}"))),
    }
}

impl Relay<'_> {
    pub fn text(&self) -> Result<RelayText, RpcError> {
        let carried = [self.params, self.payload].into_iter().flatten();
        let bytes: usize = carried.map(|raw| raw.get().len()).sum();
        let mut text = Vec::with_capacity(bytes + AROUND);
        serde_json::to_writer(&mut text, self).map_err(RpcError::internal)?;
        let text = String::from_utf8(text).map_err(RpcError::internal)?;
        Ok(RelayText { relay_id: self.relay_id.clone().into_owned(), text })
    }
}

/// The ids of our relays: a random prefix of this process, and a count.
pub struct RelayIds {
    prefix: String,
    next: AtomicU64,
}

impl RelayIds {
    pub fn new(ids: &Ids) -> RelayIds {
        RelayIds { prefix: ids.tagged("r"), next: AtomicU64::new(0) }
    }

    pub fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut id = String::with_capacity(self.prefix.len() + 21);
        id.push_str(&self.prefix);
        id.push('-');
        id.push_str(itoa::Buffer::new().format(number));
        id
    }
}
