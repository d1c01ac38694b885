//! Why a relay to `near.test` from `far.test` has to be refused: the first of the checks, in the order of the gateway, that it fails.

use serde_json::Value;

const OURS: &str = "near.test";
const THEIRS: &str = "far.test";

/// Every reason that [`expected`] knows.
pub const REASONS: [&str; 14] = [
    "actor",
    "caller",
    "caller_issuer",
    "caller_type",
    "depth",
    "event",
    "event_issuer",
    "hop",
    "method",
    "namespace",
    "params",
    "payload",
    "target",
    "targets",
];

/// The code and the reason.
pub fn expected(relay: &Value) -> (i64, &'static str) {
    if is_malformed(relay) {
        return (-32602, "params");
    }
    let reason = match relay {
        relay if relay["hop"] != 1 => "hop",
        relay if relay["depth"].as_u64() > Some(2) => "depth",
        relay if relay["kind"] == "event" => of_event(relay),
        relay => of_call(relay),
    };
    (-32012, reason)
}

/// Whether a member is there whose type is wrong.
fn is_malformed(relay: &Value) -> bool {
    let texts = |object: &Value, names: &[&str]| names.iter().all(|name| object[*name].is_string());
    let caller_is_wrong = match &relay["caller"] {
        Value::Null => false,
        caller => !texts(caller, &["type", "aid"]),
    };
    let targets_are_wrong = match &relay["targets"] {
        Value::Null => false,
        targets => !targets["aids"].is_array(),
    };
    let event_is_wrong = !relay["event"].is_null() && !relay["event"].is_string();
    caller_is_wrong || targets_are_wrong || event_is_wrong
}

fn of_call(relay: &Value) -> &'static str {
    let (caller, params) = (&relay["caller"], &relay["params"]);
    let aid = caller["aid"].as_str().unwrap_or_default();
    match caller["type"].as_str() {
        _ if relay["namespace"] != "message" => "namespace",
        _ if relay["method"] != "send" => "method",
        None => "caller",
        // A service has one of few names, and the agents here have none of them.
        Some("service") if issuer(aid) != Some(THEIRS) => "caller_issuer",
        Some("service") => "caller",
        Some("aid") if !is_aid(aid) => "caller",
        Some("aid") if issuer(aid) != Some(THEIRS) => "caller_issuer",
        Some("aid") if !params["from"].is_null() && params["from"] != caller["aid"] => "actor",
        Some("aid") if params["to"].as_str().and_then(issuer) != Some(OURS) => "target",
        Some("aid") => panic!("nothing is wrong with {relay}"),
        Some(_) => "caller_type",
    }
}

fn of_event(relay: &Value) -> &'static str {
    let (targets, payload) = (&relay["targets"], &relay["payload"]);
    let Some(name) = relay["event"].as_str().filter(|_| !targets.is_null() && !payload.is_null()) else {
        return "event";
    };
    if !payload.is_object() {
        return "payload";
    }
    let rule = proto_schemas::find_event(&format!("event/{name}")).and_then(|schema| schema.federation);
    let about = match rule {
        Some(rule) => &payload[rule.about],
        None if name == "app.typing" => &payload["_notify"]["from_aid"],
        None => return "event",
    };
    match about.as_str().filter(|about| is_aid(about)) {
        None => "payload",
        Some(about) if issuer(about) != Some(THEIRS) => "event_issuer",
        Some(_) if targets["device_id"] == "no name" || targets["slot_id"] == "/x" => "targets",
        Some(_) => panic!("nothing is wrong with {relay}"),
    }
}

fn issuer(aid: &str) -> Option<&str> {
    aid.trim().split_once('.').map(|(_, issuer)| issuer)
}

/// A name of 4 to 63 characters, a dot, and a domain.
fn is_aid(text: &str) -> bool {
    let Some((name, issuer)) = text.trim().split_once('.') else { return false };
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_name = (4..=63).contains(&name.len())
        && !name.starts_with('-')
        && name.bytes().all(|b| plain(b) || b"_-".contains(&b));
    let is_issuer = [issuer.bytes().next(), issuer.bytes().last()].into_iter().all(|b| b.is_some_and(plain))
        && issuer.bytes().all(|b| plain(b) || b"._-".contains(&b))
        && !issuer.contains("..");
    is_name && is_issuer
}
