//! The two things the server does to a payload that it passes on as a whole: it removes claims about the sender's device, and
//! where it is not encrypted it adds its lines to an echo.

use kernel::CallingAgent;
use proto_schemas::tool_call::JsonMembers;
use serde_json::Value;
use serde_json::value::RawValue;

/// The sender's device is what the connection says.
const CLAIMS: [&str; 4] = ["sender_device_id", "_sender_device_id", "from_device_id", "from_device"];
/// Longer texts are no echo requests.
const ECHO_CHARS: usize = 4096;

/// The payload as it is stored.
pub(crate) fn processed(
    payload: &RawValue,
    encrypted: bool,
    session: &CallingAgent,
    now_ms: i64,
) -> Box<RawValue> {
    let text = payload.get();
    // Claims are removed whatever else the payload says of itself: that it is encrypted is only what its sender says. No
    // envelope has them at its top.
    let claims = text.contains("device") || text.contains("\\u");
    let echo = !encrypted && holds_echo(text);
    if !(claims || echo) {
        return payload.to_owned();
    }
    let Some(mut members) = JsonMembers::of(payload) else { return payload.to_owned() };
    let before = members.0.len();
    members.0.retain(|(name, _)| !CLAIMS.contains(&name.as_str()));
    let echoed = if echo && !is_envelope(&members) { echoed(&members, session, now_ms) } else { None };
    if let Some(echoed) = &echoed {
        for (_, value) in members.0.iter_mut().filter(|(name, _)| name == "text") {
            *value = echoed;
        }
    }
    if before == members.0.len() && echoed.is_none() {
        return payload.to_owned();
    }
    members.write()
}

fn is_envelope(members: &JsonMembers<'_>) -> bool {
    let kind = members.get("type").and_then(|kind| serde_json::from_str::<String>(kind.get()).ok());
    kind.is_some_and(|kind| kind.starts_with("e2ee."))
}

fn holds_echo(text: &str) -> bool {
    text.as_bytes().windows(4).any(|four| four.eq_ignore_ascii_case(b"echo"))
}

/// "The first line contains echo": each station adds a line with its time.
fn echoed(members: &JsonMembers<'_>, session: &CallingAgent, now_ms: i64) -> Option<Box<RawValue>> {
    let text: String = serde_json::from_str(members.get("text")?.get()).ok()?;
    let asks = text.lines().next().is_some_and(|line| line.to_ascii_lowercase().contains("echo"));
    if !asks || text.chars().count() > ECHO_CHARS {
        return None;
    }
    let (clock, uptime) = (clock(now_ms), (now_ms - session.connected_at_ms).max(0) / 1000);
    let aid = &session.aid;
    let text = format!(
        "{text}\n{clock} [AUN-Gateway.route] from={aid} conn_uptime={uptime}s\
         \n{clock} [AUN-Message.relay] from={aid} conn_uptime={uptime}s"
    );
    serde_json::value::to_raw_value(&Value::from(text)).ok()
}

fn clock(now_ms: i64) -> String {
    let (seconds, ms) = (now_ms.div_euclid(1000), now_ms.rem_euclid(1000));
    let day = seconds.rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}.{ms:03}", day / 3600, day / 60 % 60, day % 60)
}
