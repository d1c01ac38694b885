//! `auth.connect`: a token, a device and a slot turn a socket into a session.

use super::registry::{Bound, Kind, Link};
use crate::door::Door;
use crate::order;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use services::kernel::{Aid, Delivery, DeviceId, Ear, Generation, Mode, RpcError, Session, SlotId, codes};
use std::sync::Arc;

const PROTOCOL: &str = "1.0";
/// What a client may attach to its connection for others to see.
const EXTRA_INFO_BYTES: usize = 4096;
const CAPABILITIES_BYTES: usize = 4096;

/// A refusal, and the close code if the socket has to go. It mostly stays: clients recover on it.
pub(super) struct Refused {
    pub error: RpcError,
    pub close: Option<u16>,
}

impl From<RpcError> for Refused {
    fn from(error: RpcError) -> Refused {
        Refused { error, close: None }
    }
}

/// Written by hand, like the welcome: every connection gets one, and the nonce needs no escapes.
pub(super) fn challenge(nonce: &str, now_ms: i64) -> String {
    let seconds = now_ms as f64 / 1000.0;
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"challenge\",\"params\":{{\"nonce\":\"{nonce}\",\"server\":\"aund\",\
         \"protocol\":{{\"min\":\"{PROTOCOL}\",\"max\":\"{PROTOCOL}\"}},\"auth_methods\":[\"kite_token\"],\
         \"capabilities\":{{}},\"server_time\":{seconds}}}}}"
    )
}

#[derive(Deserialize)]
struct ConnectParams {
    #[serde(default)]
    nonce: String,
    #[serde(default)]
    auth: Option<Auth>,
    #[serde(default)]
    protocol: Protocol,
    #[serde(default)]
    device: Device,
    #[serde(default)]
    client: Client,
    #[serde(default)]
    delivery_mode: Delivery,
    #[serde(default)]
    capabilities: Option<Box<RawValue>>,
    #[serde(default)]
    options: Options,
    #[serde(default)]
    extra_info: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Auth {
    #[serde(default)]
    method: String,
    #[serde(default)]
    token: String,
}

#[derive(Deserialize)]
#[serde(default)]
struct Protocol {
    min: String,
    max: String,
}

impl Default for Protocol {
    fn default() -> Protocol {
        Protocol { min: PROTOCOL.to_owned(), max: PROTOCOL.to_owned() }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Device {
    id: DeviceId,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Client {
    slot_id: SlotId,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Options {
    kind: Option<String>,
    short_ttl_ms: Option<u64>,
}

pub(super) async fn connect(
    door: &Door,
    link: &Arc<Link>,
    nonce: &str,
    params: Option<&RawValue>,
) -> Result<String, Refused> {
    let text = params.map_or("{}", RawValue::get);
    let params: ConnectParams = serde_json::from_str(text).map_err(|error| {
        RpcError::new(codes::BAD_PARAMETER, format!("auth.connect is not understood: {error}"))
    })?;
    if params.nonce.is_empty() {
        return Err(missing("nonce").into());
    }
    if !same(params.nonce.as_bytes(), nonce.as_bytes()) {
        let error = RpcError::new(codes::BAD_NONCE, "nonce: not the one of this connection's challenge");
        return Err(Refused { error, close: Some(4010) });
    }
    params.protocol.check()?;
    let (kind, delivery) = (params.options.kind()?, params.delivery_mode);
    check_delivery(&delivery)?;
    let (device, slot) = (params.device.id, params.client.slot_id);
    if device.is_empty() && !slot.is_empty() {
        return Err(RpcError::new(
            codes::BAD_PARAMETER,
            "slot_requires_device_id: client.slot_id needs device.id",
        )
        .into());
    }
    bounded("extra_info", params.extra_info.as_deref(), EXTRA_INFO_BYTES)?;
    bounded("capabilities", params.capabilities.as_deref(), CAPABILITIES_BYTES)?;
    let aid = whose(door, params.auth).await?;

    // Before anyone can write to it: what comes from now on waits for this device, and its bell is heard here.
    let (ear, joined) = tokio::join!(hear(door, kind, &aid), join(door, &aid, &device));
    let joined = joined?;

    let now = door.clock.now_ms();
    let bound = Bound {
        session: Session {
            aid: aid.clone(),
            device: device.clone(),
            slot,
            connection: link.id,
            address: link.address,
            connected_at_ms: now,
            generation: generation(params.capabilities.as_deref()),
            trace: None,
        },
        kind,
        delivery,
        extra_info: params.extra_info,
        since_ms: now,
        instead_of: Vec::new(),
        _ear: ear,
        limit: door.limits.agent(&aid),
        signer: Default::default(),
    };
    door.registry.enter(link, bound).map_err(|error| {
        let close = (error.code() == codes::SHORT_CAPACITY.code).then_some(4013);
        Refused { error, close }
    })?;
    order::begin(door, &aid, &device);
    if !joined {
        door.gap.missed([aid.clone()]);
    }
    door.presence.announced().await;
    Ok(welcome(door, link.id, &aid, &device, kind, now))
}

/// Events are for long connections only.
async fn hear(door: &Door, kind: Kind, aid: &Aid) -> Option<Ear> {
    match kind {
        Kind::Long => Some(door.bus.hear(aid).await),
        Kind::Short(_) => None,
    }
}

/// Whether the message room knows of the device. Nobody is kept out because it is away: it hears of him when it is back.
async fn join(door: &Door, aid: &Aid, device: &DeviceId) -> Result<bool, RpcError> {
    if !door.mesh.has("message") {
        return Ok(!door.mesh.knows("message"));
    }
    let _: Value = door.ask("message.join", &json!({ "aid": aid, "device_id": device })).await?;
    Ok(true)
}

/// Every other way of proving oneself ends in a token too.
async fn whose(door: &Door, auth: Option<Auth>) -> Result<Aid, RpcError> {
    let auth = auth.ok_or_else(|| missing("auth"))?;
    if auth.method != "kite_token" {
        let sentence = format!("auth.method: {:?} is not taken here, log in and use kite_token", auth.method);
        return Err(RpcError::new(codes::BAD_PARAMETER, sentence));
    }
    if auth.token.is_empty() {
        return Err(missing("auth.token"));
    }
    #[derive(Deserialize)]
    struct Verified {
        aid: Aid,
    }
    let verified: Verified = door.ask("auth.verify_token", &json!({ "token": auth.token })).await?;
    Ok(verified.aid)
}

/// Clients say what they can read in lists and flags of their own; three groups of them need different bells.
fn generation(capabilities: Option<&RawValue>) -> Generation {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Capabilities {
        p2p_peer_pull_v1: Value,
        supported_p2p_e2ee: Value,
    }
    let Some(capabilities) = capabilities else { return Generation::First };
    let Capabilities { p2p_peer_pull_v1, supported_p2p_e2ee } =
        serde_json::from_str(capabilities.get()).unwrap_or_default();
    if p2p_peer_pull_v1 == json!(true) {
        return Generation::Peer;
    }
    if supported_p2p_e2ee == json!(["e2ee_v2"]) { Generation::Second } else { Generation::First }
}

impl Protocol {
    /// There is one version; a range that does not hold it cannot talk to us.
    fn check(&self) -> Result<(), Refused> {
        let number = |text: &str| -> Option<(u32, u32)> {
            let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        let (Some(min), Some(max)) = (number(&self.min), number(&self.max)) else {
            return Err(RpcError::new(codes::BAD_PARAMETER, "protocol: versions are written like 1.0").into());
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
            Some(other) => Err(RpcError::new(
                codes::BAD_PARAMETER,
                format!("options.kind: long or short, not {other:?}"),
            )),
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
    let sentence = format!("delivery_mode.routing: {:?} does not go with this mode", delivery.routing);
    Err(RpcError::new(codes::BAD_PARAMETER, sentence))
}

fn bounded(name: &str, value: Option<&RawValue>, most: usize) -> Result<(), RpcError> {
    match value {
        Some(value) if value.get().len() > most => {
            Err(RpcError::new(codes::BAD_PARAMETER, format!("{name}: at most {most} bytes are taken")))
        }
        Some(value) if !value.get().starts_with('{') => {
            Err(RpcError::new(codes::BAD_PARAMETER, format!("{name}: an object is taken")))
        }
        _ => Ok(()),
    }
}

fn missing(name: &str) -> RpcError {
    RpcError::new(codes::BAD_PARAMETER, format!("{name} is missing"))
}

/// Compared without telling by time how much of it was right.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |differ, (l, r)| differ | (l ^ r)) == 0
}

/// The names in it are made of letters that need no escapes.
fn welcome(door: &Door, connection: u64, aid: &Aid, device: &DeviceId, kind: Kind, now_ms: i64) -> String {
    let seconds = now_ms as f64 / 1000.0;
    let (device, kind) = (device.as_str(), if kind == Kind::Long { "long" } else { "short" });
    let (version, capabilities) = (env!("CARGO_PKG_VERSION"), door.told().session);
    format!(
        "{{\"status\":\"ok\",\"protocol\":\"{PROTOCOL}\",\"server_time\":{seconds},\"authenticated\":true,\
         \"identity\":{{\"module_id\":\"gateway-client-{connection}\",\"role\":\"agent\",\"aid\":\"{aid}\"}},\
         \"trust_level\":\"low\",\
         \"connection\":{{\"id\":\"conn_gateway-client-{connection}\",\"device_id\":\"{device}\",\"kind\":\"{kind}\"}},\
         \"bridgeInfo\":{{\"name\":\"aund\",\"version\":\"{version}\"}},\"heartbeat_interval\":30,\
         \"capabilities\":{capabilities}}}"
    )
}
