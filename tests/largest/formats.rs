//! What no keyword of JSON Schema can say, by the names of the shared schemas: a member that refers to one of these is made here, of
//! whichever method it is.

use serde_json::{Map, Value, json};

use crate::support::agent::aid;

/// Stands for a number that differs from call to call, so that no call repeats another one.
pub const UNIQUE: &str = "unique-0000000000";
/// Stands for the connection that makes the call: the beginning of its device id and of its slot id.
pub const CONNECTION: &str = "connection-0";
/// How long both are.
const CONNECTION_CHARS: usize = 128;

/// A call that carries one of these is refused unless it is the right one for all its other members.
pub const SIGNATURES: [&str; 1] = ["ClientSignature"];

/// The largest value of the shared schema of this name; `nth` tells the items of a list from each other.
pub fn largest(name: &str, nth: usize) -> Option<Value> {
    match name {
        // Of this domain: an AID of another one would be about that domain's server.
        "Aid" => Some(json!(aid(&format!("{nth:x>63}")))),
        "DeviceId" | "SlotId" => Some(json!(connection_id(0))),
        "CapabilityManifest" => Some(manifest()),
        _ => None,
    }
}

/// The device id and the slot id of one of the connections of a caller.
pub fn connection_id(connection: usize) -> String {
    format!("{:x<CONNECTION_CHARS$}", format!("connection-{connection}"))
}

/// As many bytes, values and parts of patterns as a manifest may have, and references that make comparing it expensive.
fn manifest() -> Value {
    const BYTES: usize = 131_072;
    const REFERENCES: usize = 1_500;
    const VALUES: usize = 6_900;
    let mut properties: Map<String, Value> =
        (0..REFERENCES).map(|n| (format!("p{n}"), json!({ "$ref": "#/$defs/all" }))).collect();
    properties.extend((0..5).map(|n| (format!("text{n}"), json!({ "pattern": "[ab]{4900}" }))));
    let mut values: Vec<Value> = (0..VALUES).map(Value::from).collect();
    values.push(json!(UNIQUE));
    let mut manifest = json!({
        "schema_version": "1.0",
        "agent_version": "1.0.0",
        "tools": [{
            "name": "read_file",
            "description_i18n_key": "agent.cap.read_file.description",
            "input_schema": { "type": "object", "properties": properties, "$defs": { "all": { "enum": values } } },
            "permission_scope": "filesystem:read",
            "timeout_ms": 600_000,
        }],
        "permission_scopes": [{
            "id": "filesystem:read",
            "label_i18n_key": "agent.scope.filesystem_read.label",
            "sensitivity": "medium",
        }],
        "capability_flags": {},
    });
    // The rest, as far as it is not needed for the member itself.
    let rest = BYTES.saturating_sub(manifest.to_string().len() + 32);
    manifest["tools"][0]["input_schema"]["description"] = json!("x".repeat(rest));
    manifest
}
