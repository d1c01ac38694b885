//! A store without free space: new bytes are refused, and what needs none or frees some goes on.

use std::fs;

use certs::{Curve, Key};
use serde_json::{Value, json};

use crate::support::agent::{ConnectedAgent, aid, public_key, text};
use crate::support::{TestServer, on_sqlite, printed, split};

/// A limit that no disk and no schema can hold.
fn limit() -> &'static str {
    if on_sqlite() { "store.free_bytes = 1152921504606846976\n" } else { "store.bytes = 1\n" }
}

/// Starts the server again with the limit, or without it.
pub async fn restart(server: &mut TestServer, limited: bool) {
    let settings = fs::read_to_string(server.config()).expect("the server has settings").replace(limit(), "");
    let limit = if limited { limit() } else { "" };
    fs::write(server.config(), settings + limit).expect("a file can be written");
    server.restart().await;
}

fn assert_no_space(error: &Value) {
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(5003), &json!("no_space")), "{error}");
    assert_eq!(error["data"]["retryable"], true, "{error}");
    assert!(error["data"]["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "{error}");
    assert!(text(&error["message"]).contains("too little free space"), "{error}");
    assert!(!error.to_string().contains('/'), "where the store is stays on our side: {error}");
}

fn creation(name: &str) -> Value {
    json!({ "aid": aid(name), "public_key": public_key(&Key::generate(Curve::P256)), "curve": "P-256" })
}

fn message(to: &ConnectedAgent, id: &str) -> Value {
    json!({ "to": to.aid(), "message_id": id, "payload": { "text": id } })
}

fn task(to: &ConnectedAgent) -> Value {
    json!({ "to": to.aid(), "input": { "type": "text", "content": "please review this" } })
}

async fn accepted_task(owner: &ConnectedAgent, assignee: &ConnectedAgent) -> String {
    let id = text(&owner.call("task.create", &task(assignee)).await["task_id"]);
    assignee.call("task.accept", &json!({ "task_id": id })).await;
    id
}

#[tokio::test]
async fn without_free_space_new_bytes_are_refused_and_the_rest_goes_on() {
    let mut server = TestServer::start().await;
    let (alice, bob) = (server.agent("alice").await, server.agent("bobby").await);
    for id in ["m-1", "m-2"] {
        alice.call("message.send", &message(&bob, id)).await;
    }
    let (done, dropped) = (accepted_task(&alice, &bob).await, accepted_task(&alice, &bob).await);
    restart(&mut server, true).await;
    let (alice, bob) = (server.reconnect(&alice).await, server.reconnect(&bob).await);

    assert_new_bytes_are_refused(&server, &alice, &bob, &done).await;
    assert_the_rest_goes_on(&server, &alice, &bob).await;
    bob.call("task.complete", &json!({ "task_id": done })).await;
    alice.call("task.cancel", &json!({ "task_id": dropped })).await;
    assert_it_is_told(&server).await;

    restart(&mut server, false).await;
    let (alice, bob) = (server.reconnect(&alice).await, server.reconnect(&bob).await);
    assert_eq!(alice.call("message.send", &message(&bob, "m-3")).await["status"], "delivered", "as new");
    server.agent("carol").await;
}

async fn assert_new_bytes_are_refused(
    server: &TestServer,
    alice: &ConnectedAgent,
    bob: &ConnectedAgent,
    done: &str,
) {
    assert_no_space(&alice.call_error("message.send", &message(bob, "m-3")).await);
    assert_no_space(&alice.call_error("task.create", &task(bob)).await);
    let artifact = json!({ "id": "summary", "type": "text", "mime_type": "text/plain", "content": "fine" });
    let complete = json!({ "task_id": done, "artifacts": [artifact] });
    assert_no_space(&bob.call_error("task.complete", &complete).await);
    assert_no_space(&server.ask_error("auth.create_aid", &creation("carol")).await);

    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "message.send", "params": message(bob, "m-3") });
    let by_token = server.http("POST", "/rpc").header("Content-Type", "application/json");
    let by_token = by_token.bearer(&alice.tokens.access).body(call.to_string()).send().await;
    assert_no_space(&by_token.json()["error"]);
    let document = server.http("PUT", "/agent.md").host(alice.aid()).bearer(&alice.tokens.access);
    let document = document.header("Content-Type", "text/markdown").body("# alice").send().await;
    assert_eq!(document.status, 503, "{}", document.text());
    assert!(document.header("retry-after").is_some());
    assert!(server.metric_of_all("aund_store_no_space_total").await >= 6.0);
}

async fn assert_the_rest_goes_on(server: &TestServer, alice: &ConnectedAgent, bob: &ConnectedAgent) {
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true);
    assert_eq!(bob.call("message.pull", &json!({})).await["count"], 2, "nothing that was refused");
    assert_eq!(bob.call("message.ack", &json!({ "seq": 2 })).await["ack_seq"], 2);
    assert_eq!(alice.call("message.recall", &json!({ "message_ids": ["m-1"] })).await["recalled"], 1);
    assert_eq!(alice.call("task.list", &json!({})).await["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(server.http("GET", "/agent.md").host(alice.aid()).send().await.status, 404);
    let again = server.connect(&alice.identity, |hello| hello["device"]["id"] = json!("phone")).await;
    assert_eq!(again.call("meta.ping", &json!({})).await["pong"], true, "logins go on");
}

/// Operators see it, and nobody sends clients elsewhere because of it.
async fn assert_it_is_told(server: &TestServer) {
    let ready = server.get("/health/readiness").await;
    assert_eq!(ready.status, 200, "{}", ready.text());
    if !split() {
        assert_eq!(
            (&ready.json()["free_space"], &ready.json()["status"]),
            (&json!("full"), &json!("degraded"))
        );
    }
    let health = server.aund_on("message", &["health"]).await;
    let told = printed(&health.stdout);
    assert!(health.status.success() && told.contains("registrations are refused"), "{told}");
    let doctor = server.aund(&["doctor"]).await;
    let told = printed(&doctor.stdout);
    assert!(!doctor.status.success() && told.contains("registrations are refused"), "{told}");
}
