//! Manifests that are small to send and hard to read: comparing them, and the patterns in them, must delay nobody else.

use std::pin::pin;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::support::TestServer;
use crate::support::agent::{ConnectedAgent, text};

/// What one call may make the server compute, in hundredths of a second: this build is made to be compiled quickly and not to be quick.
const MOST_TICKS: u64 = 300;
const BETWEEN_PINGS: Duration = Duration::from_millis(5);

fn manifest(tools: &Value) -> Value {
    json!({
        "schema_version": "1.0", "agent_version": "1.0.0", "capability_flags": {},
        "permission_scopes": [{ "id": "notification:send", "sensitivity": "low", "label_i18n_key": "scope.send" }],
        "tools": tools,
    })
}

fn tool(name: &str, schema: &Value) -> Value {
    json!({
        "name": name, "description_i18n_key": "tool.text", "permission_scope": "notification:send",
        "required": false, "input_schema": schema,
    })
}

/// One list of many values, and many references to it.
fn many_references(values: &[usize]) -> Value {
    let properties: serde_json::Map<String, Value> =
        (0..1500).map(|n| (format!("p{n}"), json!({ "$ref": "#/$defs/e" }))).collect();
    let schema = json!({
        "type": "object", "additionalProperties": false, "properties": properties,
        "$defs": { "e": { "enum": values } },
    });
    manifest(&json!([tool("many", &schema)]))
}

/// Does something while somebody else pings all the time. What the server computed for both, in hundredths of a second, is little;
/// and it answers pings until the end.
async fn while_pinging<T>(
    server: &TestServer,
    bystander: &ConnectedAgent,
    happens: impl Future<Output = T>,
) -> T {
    let (before, nothing) = (server.cpu_ticks(), json!({}));
    let (mut pings, mut happens) = (0_u64, pin!(happens));
    let outcome = loop {
        let ping = bystander.call("meta.ping", &nothing);
        tokio::select! {
            biased;
            outcome = &mut happens => break outcome,
            _ = ping => pings += 1,
        }
        sleep(BETWEEN_PINGS).await;
    };
    let used = server.cpu_ticks() - before;
    assert!(used < MOST_TICKS + pings, "{used} ticks while {pings} pings were answered");
    outcome
}

#[tokio::test]
async fn a_manifest_that_is_hard_to_compare_delays_nobody() {
    let server = TestServer::with_one_gateway("").await;
    let (mallory, alice) = (server.agent("mallory").await, server.agent("alice").await);
    let values: Vec<usize> = (0..5000).collect();
    let made = mallory
        .call("agent.create", &json!({ "name": "Helper", "capability_manifest": many_references(&values) }))
        .await;
    let reversed: Vec<usize> = values.into_iter().rev().collect();
    let update =
        json!({ "id": text(&made["agent"]["id"]), "capability_manifest": many_references(&reversed) });
    let updated = while_pinging(&server, &alice, mallory.try_call("agent.update", &update)).await;
    let updated = updated.unwrap_or_else(|error| panic!("it is legal: {error}"));
    assert_eq!(updated["manifest_change"]["breaking"], false, "the same values in another order: {updated}");
}

#[tokio::test]
async fn patterns_are_measured_and_not_compiled() {
    let server = TestServer::with_one_gateway("").await;
    let (mallory, alice) = (server.agent("mallory").await, server.agent("alice").await);
    // Each of them short, and large once its repetitions are written out.
    let pattern = |n: usize| json!({ "type": "string", "pattern": format!("^{n}[a-z]{{900}}$") });
    let tools: Value = (0..8)
        .map(|n| {
            let properties: serde_json::Map<String, Value> =
                (0..64).map(|p| (format!("p{p}"), pattern(p))).collect();
            let schema = json!({ "type": "object", "additionalProperties": false, "properties": properties });
            tool(&format!("tool_{n}"), &schema)
        })
        .collect();
    let create = json!({ "name": "Helper", "capability_manifest": manifest(&tools) });
    let refused = while_pinging(&server, &alice, mallory.try_call("agent.create", &create)).await;
    let refused = refused.expect_err("together they are too large");
    assert_eq!(refused["data"]["violations"][0]["rule"], "pattern", "{refused}");
}
