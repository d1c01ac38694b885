//! `auth.connect`: a token, a device and a slot turn a socket into a session.

mod params;

use super::greeting::welcome;
use super::registry::{Bound, Kind, Link};
use crate::event_order;
use crate::gateway::Gateway;
use params::{Auth, ConnectParams, bad, missing};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use services::kernel::{Aid, DeviceId, RpcError, Session, Subscription, codes};
use std::sync::Arc;

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

pub(super) async fn connect(
    gateway: &Gateway,
    link: &Arc<Link>,
    nonce: &str,
    params: Option<&RawValue>,
) -> Result<String, Refused> {
    let params = ConnectParams::read(params)?;
    let kind = params.check(nonce)?;
    let generation = params.generation();
    let aid = whose(gateway, params.auth).await?;
    let (device, slot) = (params.device.id, params.client.slot_id);

    // Before anyone can write to it: what comes from now on waits for this device, and its bell is heard here.
    let (subscription, joined) = tokio::join!(hear(gateway, kind, &aid), join(gateway, &aid, &device));
    let joined = joined?;

    let now = gateway.clock.now_ms();
    let bound = Bound {
        session: Session {
            aid: aid.clone(),
            device: device.clone(),
            slot,
            connection: link.id,
            address: link.address,
            connected_at_ms: now,
            generation,
            trace: None,
        },
        kind,
        delivery: params.delivery_mode,
        extra_info: params.extra_info,
        since_ms: now,
        instead_of: Vec::new(),
        _subscription: subscription,
        limit: gateway.limits.agent(&aid),
        signer: Default::default(),
    };
    gateway.registry.enter(link, bound).map_err(|error| {
        let close = (error.code() == codes::SHORT_CAPACITY.code).then_some(4013);
        Refused { error, close }
    })?;
    event_order::begin(gateway, &aid, &device);
    if !joined {
        gateway.resync.missed([aid.clone()]);
    }
    gateway.presence.announced().await;
    Ok(welcome(gateway, link.id, &aid, &device, kind, now))
}

/// Events are for long connections only.
async fn hear(gateway: &Gateway, kind: Kind, aid: &Aid) -> Option<Subscription> {
    match kind {
        Kind::Long => Some(gateway.bus.subscribe(aid).await),
        Kind::Short(_) => None,
    }
}

/// Whether the message service knows of the device. Nobody is kept out because it is away: it hears of him when it is back.
async fn join(gateway: &Gateway, aid: &Aid, device: &DeviceId) -> Result<bool, RpcError> {
    if !gateway.mesh.has("message") {
        return Ok(!gateway.mesh.knows("message"));
    }
    let _: Value = gateway.ask("message.join", &json!({ "aid": aid, "device_id": device })).await?;
    Ok(true)
}

/// Every other way of proving oneself ends in a token too.
async fn whose(gateway: &Gateway, auth: Option<Auth>) -> Result<Aid, RpcError> {
    let auth = auth.ok_or_else(|| missing("auth"))?;
    if auth.method != "kite_token" {
        let sentence = format!("auth.method: {:?} is not taken here, log in and use kite_token", auth.method);
        return Err(bad(sentence));
    }
    if auth.token.is_empty() {
        return Err(missing("auth.token"));
    }
    #[derive(Deserialize)]
    struct Verified {
        aid: Aid,
    }
    let verified: Verified = gateway.ask("auth.verify_token", &json!({ "token": auth.token })).await?;
    Ok(verified.aid)
}
