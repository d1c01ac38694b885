//! `notification/route`: an agent rings another agent's bell. Nothing is stored and nobody is told whether it rang.

use crate::federation;
use crate::frame::Request;
use crate::gateway::Gateway;
use crate::params;
use crate::session::Bound;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use services::kernel::{Aid, Audience, DeviceId, Event, RpcError, Session, SlotId, codes};

const MOST_BYTES: usize = 64 << 10;
const MOST_TTL_MS: u64 = 60_000;
const TTL_MS: u64 = 5_000;

#[derive(Deserialize)]
struct Route {
    target: Target,
    deliver: Deliver,
    #[serde(default)]
    ttl_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Target {
    #[serde(rename = "type")]
    kind: String,
    aid: Aid,
    #[serde(default)]
    device_id: Option<DeviceId>,
    #[serde(default)]
    slot_id: Option<SlotId>,
}

#[derive(Deserialize)]
struct Deliver {
    method: String,
    params: Box<RawValue>,
}

pub fn route(gateway: &Gateway, from: &Bound, request: &Request<'_>) -> Result<(), RpcError> {
    let params = request.params.ok_or_else(|| refuse("params are missing"))?;
    let route: Route = serde_json::from_str(params.get())
        .map_err(|error| RpcError::new(codes::INVALID_PARAMS, format!("params: {error}")))?;
    let Route { target, deliver, ttl_ms } = route;
    if target.kind != "aid" {
        return Err(refuse("params.target.type: aid is the one that is known"));
    }
    if !is_app_event(&deliver.method) {
        return Err(refuse("params.deliver.method: only event/app.… can be routed"));
    }
    if deliver.method.len() + deliver.params.get().len() > MOST_BYTES {
        return Err(refuse("params.deliver: at most 64 KiB are taken"));
    }
    if !deliver.params.get().starts_with('{') {
        return Err(refuse("params.deliver.params: an object is taken"));
    }
    let ttl_ms = ttl_ms.unwrap_or(TTL_MS);
    if ttl_ms > MOST_TTL_MS {
        return Err(refuse("params.ttl_ms: at most 60000"));
    }
    let device = target.device_id.filter(|device| !device.is_empty());
    let slot = target.slot_id.filter(|slot| !slot.is_empty());
    if slot.is_some() && device.is_none() {
        return Err(refuse("params.target.slot_id: a slot is one of a device, so device_id is needed"));
    }
    let params = signed_by_us(gateway, from, &deliver.params, ttl_ms)?;
    tracing::debug!(caller.aid = %from.session.aid, "routed a notification");
    if target.aid.issuer() != gateway.config.issuer {
        abroad(gateway, &target.aid, device, slot, &deliver.method, params);
        return Ok(());
    }
    let to = Audience::Instance { aid: target.aid, device, slot };
    gateway.bus.publish(&Event { to, method: deliver.method, params });
    Ok(())
}

/// Nothing waits for a domain that cannot be reached: it rings now or not at all.
fn abroad(
    gateway: &Gateway,
    aid: &Aid,
    device: Option<DeviceId>,
    slot: Option<SlotId>,
    method: &str,
    payload: Box<RawValue>,
) {
    let Some(federation) = gateway.federation() else { return };
    let targets = federation::EventTargets {
        aids: vec![aid.to_string()],
        device_id: device.map(|device| device.as_str().to_owned()).unwrap_or_default(),
        slot_id: slot.map(|slot| slot.as_str().to_owned()).unwrap_or_default(),
    };
    let event = method.strip_prefix("event/").unwrap_or(method);
    let event_id = gateway.ids.time_ordered(gateway.clock.now_ms());
    federation.send_event(aid.issuer(), event, event_id, targets, &payload);
}

/// The receiver learns who rang from us; what the sender writes there itself is replaced.
fn signed_by_us(
    gateway: &Gateway,
    from: &Bound,
    given: &RawValue,
    ttl_ms: u64,
) -> Result<Box<RawValue>, RpcError> {
    let Session { aid, device, slot, connection, .. } = &from.session;
    let notify = json!({
        "from_aid": aid,
        "device_id": device,
        "slot_id": slot,
        "connection_id": format!("conn_gateway-client-{connection}"),
        "sent_at": gateway.clock.now_ms(),
        "ttl_ms": ttl_ms,
    });
    let mut text = given.get().to_owned();
    if params::may_hold(given, "\"_notify\"") {
        let mut members = params::members(given)?;
        if members.remove("_notify").is_some() {
            text = serde_json::to_string(&members).map_err(RpcError::internal)?;
        }
    }
    // Everything else arrives as it was written.
    let open = text.strip_suffix('}').unwrap_or(&text);
    let comma = if open.trim_end() == "{" { "" } else { "," };
    let text = format!("{open}{comma}\"_notify\":{notify}}}");
    RawValue::from_string(text).map_err(RpcError::internal)
}

/// Everything else under `event/` is the server's own word.
pub fn is_app_event(method: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    method.len() <= 256
        && method.strip_prefix("event/app.").is_some_and(|name| !name.is_empty() && name.bytes().all(plain))
}

fn refuse(sentence: &str) -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, sentence)
}
