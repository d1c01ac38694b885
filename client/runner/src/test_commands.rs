//! Commands as the manager shows them, for tests.

use proto_schemas::requests::run::CommandRecord;
use serde_json::{Value, json};

/// The command `cmd_SEQ`, which waits.
pub(crate) fn command(seq: i64, kind: &str, payload: Value) -> CommandRecord {
    let record = json!({
        "commandId": format!("cmd_{seq}"), "runId": "run_1", "seq": seq, "type": kind, "state": "pending",
        "payload": payload, "payloadHash": "", "idempotencyKey": null, "targetCommandId": null,
        "acknowledgedAt": null, "acknowledgedEpoch": null, "terminalStatus": null, "failureKind": null,
        "failureMessage": null, "createdAt": "", "updatedAt": "", "cancelRequestedAt": null,
    });
    serde_json::from_str(&record.to_string()).expect("it is a command")
}
