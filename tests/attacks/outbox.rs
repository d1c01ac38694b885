//! What waits to be written, calls in flight, signatures used twice, and metrics.

use ring::digest;
use serde_json::{Value, json};

use crate::support::agent::{ConnectedAgent, TestIdentity, text};
use crate::support::blocker::Blocker;
use crate::support::{TestServer, now, split, until};

/// Outboxes that are full soon, and writers that wait for readers longer than the test takes.
const SMALL_OUTBOXES: &str = "limits.frame_bytes = 131072\nlimits.outbox_bytes = 262144\n\
                              limits.outbox_total_bytes = 1048576\nlimits.write_timeout_ms = 120000\n\
                              limits.calls_per_second = 100000";

/// 60 KiB for one connection of an agent.
fn large_event(to: &ConnectedAgent) -> Value {
    json!({
        "target": { "type": "aid", "aid": to.aid(), "device_id": to.device(), "slot_id": to.slot() },
        "deliver": { "method": "event/app.large", "params": { "pad": "x".repeat(60 << 10) } },
    })
}

/// An agent with nine connections that never read fills what all outboxes may hold together. Each frame of its own is followed by
/// one for somebody who reads, of the same size: that is the one for which there is no space any more.
#[tokio::test]
async fn connections_that_never_read_disconnect_nobody_else() {
    let server = TestServer::with_one_gateway(SMALL_OUTBOXES).await;
    let (mallory, alice, bob) =
        (server.agent("mallory").await, server.agent("alice").await, server.agent("bobby").await);
    let mut silent = Vec::new();
    for n in 0..9 {
        silent.push(server.connect_narrow(&mallory, &format!("device{n}")).await);
    }
    let (to_bob, to_silent) = (large_event(&bob), silent.iter().map(large_event).collect::<Vec<_>>());
    let (mut rounds, mut most) = (0, 0.0_f64);
    let closed = loop {
        mallory.notify("notification/route", &to_silent[rounds % to_silent.len()]).await;
        // Answered in its order: what was sent before is in the outboxes.
        mallory.call("meta.ping", &json!({})).await;
        alice.notify("notification/route", &to_bob).await;
        assert_eq!(
            bob.next_event().await["method"],
            "event/app.large",
            "round {rounds}: bob reads everything"
        );
        rounds += 1;
        if rounds % 8 == 0 {
            most = most.max(server.metric("aund_outbox_bytes ").await);
            let closed = server.metric("aund_full_outboxes_total").await;
            if closed > 0.0 {
                break closed;
            }
        }
        assert!(rounds < 4_000, "the outboxes are never full");
    };
    assert!(bob.is_open().await && alice.is_open().await, "who reads stays");
    assert!(most > 250_000.0, "{most} bytes waited, counted without a scrape of the public listener");
    assert!(closed >= 5.0, "{closed} connections of the largest holder were closed");
    until("what they held is given back", || async {
        (server.metric("aund_outbox_bytes ").await < 300_000.0).then_some(())
    })
    .await;
}

/// As many calls as may be in flight, in one batch whose answers take a while: nothing more is read until they are answered.
#[tokio::test]
async fn each_call_of_a_batch_is_in_flight() {
    let server = TestServer::with_one_gateway("limits.in_flight = 50").await;
    let (alice, bob) = (server.agent("alice").await, server.agent("bobby").await);
    let send = |n: usize| {
        let params = json!({ "to": bob.aid(), "payload": { "text": n.to_string() } });
        json!({ "jsonrpc": "2.0", "id": n, "method": "message.send", "params": params })
    };
    let batch: Vec<Value> = (0..50).map(send).collect();
    let blocker = Blocker::hold(&server, "message", "letter");
    alice.send(&json!(batch).to_string()).await;
    alice.send(r#"{"jsonrpc":"2.0","id":"ping","method":"meta.ping","params":{}}"#).await;
    // If the ping were read, it would be answered sooner than all of these.
    for _ in 0..50 {
        bob.call("meta.ping", &json!({})).await;
    }
    blocker.release();
    let (first, second) = (alice.next().await, alice.next().await);
    assert_eq!(first.as_array().map(Vec::len), Some(50), "the batch is answered first: {first}");
    assert_eq!(second["id"], "ping");
}

/// A signed `message.send`, as it goes over the wire.
fn signed_send(who: &TestIdentity, params: &Value) -> String {
    let hash = hex::encode(digest::digest(&digest::SHA256, params.to_string().as_bytes()));
    let timestamp = now().to_string();
    let signature = who.sign(&format!("message.send|{}|{timestamp}|{hash}", who.aid));
    let mut params = params.clone();
    params["client_signature"] = json!({
        "aid": who.aid, "cert_fingerprint": who.certificate().fingerprint(), "timestamp": timestamp,
        "params_hash": hash, "signature": signature,
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "message.send", "params": params }).to_string()
}

async fn stored(agent: &ConnectedAgent) -> usize {
    let page = agent.call("message.pull", &json!({ "after_seq": 0, "limit": 100 })).await;
    page["messages"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn a_signed_call_is_executed_once() {
    let server = TestServer::with_one_gateway("").await;
    let (alice, bob) = (server.agent("alice").await, server.agent("bobby").await);
    let frame = signed_send(&alice.identity, &json!({ "payload": { "text": "once" }, "to": bob.aid() }));
    // Forty races of the same call on four connections: one of all these is executed.
    let mut others = Vec::new();
    for n in 0..3 {
        others.push(server.connect_device(&alice, &format!("device{n}"), "default").await);
    }
    let all: Vec<&ConnectedAgent> = others.iter().chain([&alice]).collect();
    let answers = futures_util::future::join_all(all.iter().map(|connection| {
        let frame = &frame;
        async move {
            let mut answers = Vec::new();
            for _ in 0..10 {
                answers.push(connection.answer_to(frame).await);
            }
            answers
        }
    }));
    let answers: Vec<Value> = answers.await.into_iter().flatten().collect();
    let executed = answers.iter().filter(|answer| answer.get("result").is_some()).count();
    assert_eq!(executed, 1, "{answers:?}");
    let refused = answers.iter().find(|answer| answer.get("error").is_some()).expect("39 of them");
    assert_eq!(refused["error"]["code"], -32051, "{refused}");
    assert!(text(&refused["error"]["message"]).contains("used before"), "{refused}");
    assert_eq!(stored(&bob).await, 1);

    let named = json!({ "message_id": "m-1", "payload": { "text": "named" }, "to": bob.aid() });
    let frame = signed_send(&alice.identity, &named);
    assert_ne!(alice.answer_to(&frame).await["result"]["status"], "duplicate");
    let again = alice.answer_to(&frame).await;
    assert_eq!(again["result"]["status"], "duplicate", "what may be repeated is not refused: {again}");

    let later = server.aid("later");
    let frame = signed_send(&alice.identity, &json!({ "payload": { "text": "early" }, "to": later }));
    let refused = alice.answer_to(&frame).await;
    assert!(refused.get("error").is_some(), "{refused}");
    server.register("later").await;
    until("the same signature is accepted after refusals", || async {
        alice.answer_to(&frame).await.get("result").is_some().then_some(())
    })
    .await;
    assert_eq!(alice.answer_to(&frame).await["error"]["code"], -32051, "and not after that");
}

#[tokio::test]
async fn metrics_are_not_for_everybody() {
    let server = TestServer::shared().await;
    let answer = server.get("/metrics").await;
    assert_eq!(answer.status, 404, "{}", answer.text());
    let alice = server.register("alice").await;
    let token = server.login(&alice).await.access;
    assert_eq!(
        server.http("GET", "/metrics").bearer(&token).send().await.status,
        404,
        "an agent is nobody special"
    );
    assert!(server.metrics().await.contains("aund_sockets"), "its operator has them");
}

#[tokio::test]
async fn the_token_for_metrics_opens_them() {
    // The processes of a split server have settings of their own for this.
    if split() {
        return;
    }
    let server = TestServer::with("status.token = \"a-token-of-the-operator\"").await;
    let ask = |token: &'static str| server.http("GET", "/metrics").bearer(token).send();
    assert_eq!(server.get("/metrics").await.status, 401);
    assert_eq!(ask("a-token-of-the-operato").await.status, 401);
    let answer = ask("a-token-of-the-operator").await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("aund_outbox_bytes "), "{}", answer.text());
}
