//! The challenge, and the result of `auth.connect`. Written by hand: every connection gets both, and nothing in them needs
//! escapes.

use crate::connection::{CONNECTION_ID, ConnectionKind};
use crate::gateway::GatewayState;
use kernel::{Aid, DeviceId};

pub(super) const PROTOCOL: &str = "1.0";
/// What every agent is to this server, as `auth.connect` and `meta.status` say.
pub(super) const SESSION_ROLE: &str = "user";

pub(super) fn challenge(nonce: &str, now_ms: i64) -> String {
    let seconds = now_ms as f64 / 1000.0;
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"challenge\",\"params\":{{\"nonce\":\"{nonce}\",\"server\":\"aund\",\
         \"protocol\":{{\"min\":\"{PROTOCOL}\",\"max\":\"{PROTOCOL}\"}},\"auth_methods\":[\"kite_token\"],\
         \"capabilities\":{{}},\"server_time\":{seconds}}}}}"
    )
}

pub(super) fn welcome(
    gateway: &GatewayState,
    connection: u64,
    aid: &Aid,
    device: &DeviceId,
    kind: ConnectionKind,
    now_ms: i64,
) -> String {
    let seconds = now_ms as f64 / 1000.0;
    let (device, kind) = (device.as_str(), if kind == ConnectionKind::Long { "long" } else { "short" });
    let (version, capabilities) = (env!("CARGO_PKG_VERSION"), gateway.admission.session_capabilities());
    format!(
        "{{\"status\":\"ok\",\"protocol\":\"{PROTOCOL}\",\"server_time\":{seconds},\"authenticated\":true,\
         \"identity\":{{\"module_id\":\"gateway-client-{connection}\",\"role\":\"{SESSION_ROLE}\",\"aid\":\"{aid}\"}},\
         \"trust_level\":\"low\",\
         \"connection\":{{\"id\":\"{CONNECTION_ID}{connection}\",\"device_id\":\"{device}\",\"kind\":\"{kind}\"}},\
         \"bridgeInfo\":{{\"name\":\"aund\",\"version\":\"{version}\"}},\"heartbeat_interval\":30,\
         \"capabilities\":{capabilities}}}"
    )
}
