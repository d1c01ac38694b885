//! The parameters of `auth.connect`, and what is wrong with them.

use super::ConnectRefused;
use crate::connection::ConnectionKind;
use crate::session::greeting::PROTOCOL;
use kernel::{Delivery, DeviceId, Generation, Mode, RpcError, SlotId, codes};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::fmt::Display;

/// What a client may attach to its connection for others to see.
const EXTRA_INFO_BYTES: usize = 4096;
const CAPABILITIES_BYTES: usize = 4096;

#[derive(Deserialize)]
pub(super) struct ConnectParams {
    #[serde(default)]
    nonce: String,
    #[serde(default)]
    pub(super) auth: Option<ConnectAuth>,
    #[serde(default)]
    protocol: ConnectProtocol,
    #[serde(default)]
    pub(super) device: ConnectDevice,
    #[serde(default)]
    pub(super) client: ConnectClient,
    #[serde(default)]
    pub(super) delivery_mode: Delivery,
    #[serde(default)]
    pub(super) capabilities: Option<Box<RawValue>>,
    #[serde(default)]
    options: ConnectOptions,
    #[serde(default)]
    pub(super) extra_info: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
pub(super) struct ConnectAuth {
    #[serde(default)]
    pub(super) method: String,
    #[serde(default)]
    pub(super) token: String,
}

#[derive(Deserialize)]
#[serde(default)]
struct ConnectProtocol {
    min: String,
    max: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ConnectDevice {
    pub(super) id: DeviceId,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ConnectClient {
    pub(super) slot_id: SlotId,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ConnectOptions {
    kind: Option<String>,
    short_ttl_ms: Option<u64>,
}

impl ConnectParams {
    pub(super) fn read(params: Option<&RawValue>) -> Result<ConnectParams, RpcError> {
        serde_json::from_str(params.map_or("{}", RawValue::get))
            .map_err(|error| bad(format!("the params of auth.connect are malformed: {error}")))
    }

    /// Whether they fit each other and the challenge of this connection; says which kind of connection is asked for.
    pub(super) fn check(&self, nonce: &str) -> Result<ConnectionKind, ConnectRefused> {
        if self.nonce.is_empty() {
            return Err(missing("nonce").into());
        }
        if !same(self.nonce.as_bytes(), nonce.as_bytes()) {
            let error = RpcError::new(codes::BAD_NONCE, "nonce: not the one of this connection's challenge");
            return Err(ConnectRefused { error, close: Some(4010) });
        }
        self.protocol.check()?;
        let kind = self.options.kind()?;
        check_delivery(&self.delivery_mode)?;
        if self.device.id.is_empty() && !self.client.slot_id.is_empty() {
            return Err(bad("slot_requires_device_id: client.slot_id needs device.id").into());
        }
        bounded("extra_info", self.extra_info.as_deref(), EXTRA_INFO_BYTES)?;
        bounded("capabilities", self.capabilities.as_deref(), CAPABILITIES_BYTES)?;
        Ok(kind)
    }

    /// Clients list what they can read in flags that changed over time; three groups of them need different events.
    pub(super) fn generation(&self) -> Generation {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct ClientCapabilities {
            p2p_peer_pull_v1: Value,
            supported_p2p_e2ee: Value,
        }
        let Some(capabilities) = &self.capabilities else { return Generation::First };
        let ClientCapabilities { p2p_peer_pull_v1, supported_p2p_e2ee } =
            serde_json::from_str(capabilities.get()).unwrap_or_default();
        if p2p_peer_pull_v1 == json!(true) {
            return Generation::Peer;
        }
        if supported_p2p_e2ee == json!(["e2ee_v2"]) { Generation::Second } else { Generation::First }
    }
}

impl Default for ConnectProtocol {
    fn default() -> ConnectProtocol {
        ConnectProtocol { min: PROTOCOL.to_owned(), max: PROTOCOL.to_owned() }
    }
}

impl ConnectProtocol {
    /// The range has to contain the one version this server has.
    fn check(&self) -> Result<(), ConnectRefused> {
        let number = |text: &str| -> Option<(u32, u32)> {
            let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        let (Some(min), Some(max)) = (number(&self.min), number(&self.max)) else {
            return Err(bad("protocol: a version must be written like 1.0").into());
        };
        if (min..=max).contains(&(1, 0)) {
            return Ok(());
        }
        let error =
            RpcError::new(codes::VERSION_MISMATCH, format!("this server supports version {PROTOCOL} only"))
                .with("server_range", json!({ "min": PROTOCOL, "max": PROTOCOL }))
                .with("client_range", json!({ "min": self.min, "max": self.max }));
        Err(ConnectRefused { error, close: Some(1008) })
    }
}

impl ConnectOptions {
    fn kind(&self) -> Result<ConnectionKind, RpcError> {
        match self.kind.as_deref() {
            None | Some("long") => Ok(ConnectionKind::Long),
            Some("short") => Ok(ConnectionKind::Short(self.short_ttl_ms.filter(|ttl| *ttl > 0))),
            Some(other) => Err(bad(format!("options.kind must be long or short, not {other:?}"))),
        }
    }
}

fn check_delivery(delivery: &Delivery) -> Result<(), RpcError> {
    let fits = match delivery.mode {
        Mode::Fanout => delivery.routing.is_empty(),
        Mode::Queue => matches!(delivery.routing.as_str(), "" | "round_robin" | "sender_affinity"),
    };
    if fits {
        return Ok(());
    }
    Err(bad(format!("delivery_mode.routing: {:?} does not go with this mode", delivery.routing)))
}

fn bounded(name: &str, value: Option<&RawValue>, most: usize) -> Result<(), RpcError> {
    match value {
        Some(value) if value.get().len() > most => Err(bad(format!("{name} must have at most {most} bytes"))),
        Some(value) if !value.get().starts_with('{') => Err(bad(format!("{name} must be an object"))),
        _ => Ok(()),
    }
}

pub(super) fn missing(name: &str) -> RpcError {
    bad(format!("{name} is missing"))
}

pub(super) fn bad(sentence: impl Display) -> RpcError {
    RpcError::new(codes::BAD_PARAMETER, sentence)
}

/// Compared in constant time: how long it takes does not tell how much of it was right.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |differ, (l, r)| differ | (l ^ r)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_the_schema_lists() {
        let fields = proto_schemas::fields_of::<ConnectParams>().unwrap();
        let schema = &proto_schemas::find("auth.connect").unwrap().doc()["params"];
        assert_eq!(proto_schemas::field_differences(fields, schema), [""; 0]);
    }
}
