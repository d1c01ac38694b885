//! `notification/route`: an agent sends an event to another agent. Nothing is stored, and the sender is not told whether it
//! was delivered.

use crate::connection::OpenSession;
use crate::delivery::{APP_EVENT_BYTES, is_app_event};
use crate::federation;
use crate::frame::{RpcRequest, params};
use crate::gateway::GatewayState;
use kernel::{Aid, Audience, CallingAgent, DeviceId, Event, RpcError, SlotId, codes, read_params};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

const MAX_TTL_MS: u64 = 60_000;
const DEFAULT_TTL_MS: u64 = 5_000;

#[derive(Deserialize)]
struct RouteParams {
    target: RouteTarget,
    deliver: RoutedEvent,
    #[serde(default)]
    ttl_ms: Option<u64>,
}

#[derive(Deserialize)]
struct RouteTarget {
    #[serde(rename = "type")]
    kind: String,
    aid: Aid,
    #[serde(default)]
    device_id: Option<DeviceId>,
    #[serde(default)]
    slot_id: Option<SlotId>,
}

#[derive(Deserialize)]
struct RoutedEvent {
    method: String,
    params: Box<RawValue>,
}

pub fn route(gateway: &GatewayState, from: &OpenSession, request: &RpcRequest<'_>) -> Result<(), RpcError> {
    let RouteParams { target, deliver, ttl_ms } = read_params("notification/route", request.params)?;
    if target.kind != "aid" {
        return Err(refuse("params.target.type must be aid"));
    }
    if !is_app_event(&deliver.method) {
        return Err(refuse("params.deliver.method must be event/app.…"));
    }
    if deliver.method.len() + deliver.params.get().len() > APP_EVENT_BYTES {
        return Err(refuse("deliver must have at most 64 KiB"));
    }
    if !deliver.params.get().starts_with('{') {
        return Err(refuse("params.deliver.params must be an object"));
    }
    let ttl_ms = ttl_ms.unwrap_or(DEFAULT_TTL_MS);
    if ttl_ms > MAX_TTL_MS {
        return Err(refuse("ttl_ms must be at most 60000"));
    }
    let device = target.device_id.filter(|device| !device.is_empty());
    let slot = target.slot_id.filter(|slot| !slot.is_empty());
    if slot.is_some() && device.is_none() {
        return Err(refuse(
            "params.target.slot_id needs params.target.device_id: a slot belongs to a device",
        ));
    }
    let params = with_sender(gateway, from, &deliver.params, ttl_ms)?;
    tracing::debug!(caller.aid = %from.session.aid, "routed a notification");
    if target.aid.issuer() != gateway.config.issuer {
        send_to_peer(gateway, &from.session.aid, &target.aid, device, slot, &deliver.method, params);
        return Ok(());
    }
    let to = Audience::Instance { aid: target.aid, device, slot };
    gateway.delivery.publish(&Event::with_params(to, deliver.method, params));
    Ok(())
}

/// An event does not wait for a domain that cannot be reached: it is dropped.
fn send_to_peer(
    gateway: &GatewayState,
    from: &Aid,
    aid: &Aid,
    device: Option<DeviceId>,
    slot: Option<SlotId>,
    method: &str,
    payload: Box<RawValue>,
) {
    let Some(federation) = &gateway.federation else { return };
    let targets = federation::RelayEventTargets {
        aids: vec![aid.to_string()],
        device_id: device.map(|device| device.as_str().to_owned()).unwrap_or_default(),
        slot_id: slot.map(|slot| slot.as_str().to_owned()).unwrap_or_default(),
    };
    let event = method.strip_prefix("event/").unwrap_or(method);
    let event_id = gateway.ids.time_ordered(gateway.clock.now_ms());
    federation.send_event(from, aid.issuer(), event, event_id, targets, &payload);
}

/// The gateway says who sent it, in `_notify`; what the sender wrote there itself is replaced.
fn with_sender(
    gateway: &GatewayState,
    from: &OpenSession,
    given: &RawValue,
    ttl_ms: u64,
) -> Result<Box<RawValue>, RpcError> {
    let CallingAgent { aid, device, slot, connection, .. } = &from.session;
    let notify = json!({
        "from_aid": aid,
        "device_id": device,
        "slot_id": slot,
        "connection_id": format!("conn_gateway-client-{connection}"),
        "sent_at": gateway.clock.now_ms(),
        "ttl_ms": ttl_ms,
    });
    let mut text = given.get().to_owned();
    if params::may_contain(given, "\"_notify\"") {
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

fn refuse(sentence: &str) -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_the_schema_lists() {
        let fields = proto_schemas::fields_of::<RouteParams>().unwrap();
        let schema = &proto_schemas::find("notification/route").unwrap().doc()["params"];
        assert_eq!(proto_schemas::field_differences(fields, schema), [""; 0]);
    }
}
