//! `auth.connect`: a token, a device and a slot turn a socket into a session.

mod params;

use super::greeting::welcome;
use super::registry::{Bound, Kind, Link};
use crate::door::Door;
use crate::order;
use params::{Auth, ConnectParams, bad, missing};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use services::kernel::{Aid, DeviceId, Ear, RpcError, Session, codes};
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
    door: &Door,
    link: &Arc<Link>,
    nonce: &str,
    params: Option<&RawValue>,
) -> Result<String, Refused> {
    let params = ConnectParams::read(params)?;
    let kind = params.check(nonce)?;
    let generation = params.generation();
    let aid = whose(door, params.auth).await?;
    let (device, slot) = (params.device.id, params.client.slot_id);

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
            generation,
            trace: None,
        },
        kind,
        delivery: params.delivery_mode,
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

/// Whether the message service knows of the device. Nobody is kept out because it is away: it hears of him when it is back.
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
        return Err(bad(sentence));
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
