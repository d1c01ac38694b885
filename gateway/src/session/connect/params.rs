//! What a client says of itself in `auth.connect`, and what is wrong with it.

use super::Refused;
use crate::session::Kind;
use crate::session::greeting::PROTOCOL;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use services::kernel::{Delivery, DeviceId, Generation, Mode, RpcError, SlotId, codes};
use std::fmt::Display;

/// What a client may attach to its connection for others to see.
const EXTRA_INFO_BYTES: usize = 4096;
const CAPABILITIES_BYTES: usize = 4096;

#[derive(Deserialize)]
pub(super) struct ConnectParams {
    #[serde(default)]
    nonce: String,
    #[serde(default)]
    pub(super) auth: Option<Auth>,
    #[serde(default)]
    protocol: Protocol,
    #[serde(default)]
    pub(super) device: Device,
    #[serde(default)]
    pub(super) client: Client,
    #[serde(default)]
    pub(super) delivery_mode: Delivery,
    #[serde(default)]
    capabilities: Option<Box<RawValue>>,
    #[serde(default)]
    options: Options,
    #[serde(default)]
    pub(super) extra_info: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
pub(super) struct Auth {
    #[serde(default)]
    pub(super) method: String,
    #[serde(default)]
    pub(super) token: String,
}

#[derive(Deserialize)]
#[serde(default)]
struct Protocol {
    min: String,
    max: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Device {
    pub(super) id: DeviceId,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Client {
    pub(super) slot_id: SlotId,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Options {
    kind: Option<String>,
    short_ttl_ms: Option<u64>,
}

impl ConnectParams {
    pub(super) fn read(params: Option<&RawValue>) -> Result<ConnectParams, RpcError> {
        serde_json::from_str(params.map_or("{}", RawValue::get))
            .map_err(|error| bad(format!("auth.connect is not understood: {error}")))
    }

    /// Whether they fit each other and the challenge of this connection; says which kind of connection is asked for.
    pub(super) fn check(&self, nonce: &str) -> Result<Kind, Refused> {
        if self.nonce.is_empty() {
            return Err(missing("nonce").into());
        }
        if !same(self.nonce.as_bytes(), nonce.as_bytes()) {
            let error = RpcError::new(codes::BAD_NONCE, "nonce: not the one of this connection's challenge");
            return Err(Refused { error, close: Some(4010) });
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

    /// Clients say what they can read in lists and flags of their own; three groups of them need different bells.
    pub(super) fn generation(&self) -> Generation {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Capabilities {
            p2p_peer_pull_v1: Value,
            supported_p2p_e2ee: Value,
        }
        let Some(capabilities) = &self.capabilities else { return Generation::First };
        let Capabilities { p2p_peer_pull_v1, supported_p2p_e2ee } =
            serde_json::from_str(capabilities.get()).unwrap_or_default();
        if p2p_peer_pull_v1 == json!(true) {
            return Generation::Peer;
        }
        if supported_p2p_e2ee == json!(["e2ee_v2"]) { Generation::Second } else { Generation::First }
    }
}

impl Default for Protocol {
    fn default() -> Protocol {
        Protocol { min: PROTOCOL.to_owned(), max: PROTOCOL.to_owned() }
    }
}

impl Protocol {
    /// There is one version; a range that does not hold it cannot talk to us.
    fn check(&self) -> Result<(), Refused> {
        let number = |text: &str| -> Option<(u32, u32)> {
            let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        let (Some(min), Some(max)) = (number(&self.min), number(&self.max)) else {
            return Err(bad("protocol: versions are written like 1.0").into());
        };
        if (min..=max).contains(&(1, 0)) {
            return Ok(());
        }
        let error =
            RpcError::new(codes::VERSION_MISMATCH, format!("this server speaks version {PROTOCOL} only"))
                .with("server_range", json!({ "min": PROTOCOL, "max": PROTOCOL }))
                .with("client_range", json!({ "min": self.min, "max": self.max }));
        Err(Refused { error, close: Some(1008) })
    }
}

impl Options {
    fn kind(&self) -> Result<Kind, RpcError> {
        match self.kind.as_deref() {
            None | Some("long") => Ok(Kind::Long),
            Some("short") => Ok(Kind::Short(self.short_ttl_ms.filter(|ttl| *ttl > 0))),
            Some(other) => Err(bad(format!("options.kind: long or short, not {other:?}"))),
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
        Some(value) if value.get().len() > most => {
            Err(bad(format!("{name}: at most {most} bytes are taken")))
        }
        Some(value) if !value.get().starts_with('{') => Err(bad(format!("{name}: an object is taken"))),
        _ => Ok(()),
    }
}

pub(super) fn missing(name: &str) -> RpcError {
    bad(format!("{name} is missing"))
}

pub(super) fn bad(sentence: impl Display) -> RpcError {
    RpcError::new(codes::BAD_PARAMETER, sentence)
}

/// Compared without telling by time how much of it was right.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |differ, (l, r)| differ | (l ^ r)) == 0
}
