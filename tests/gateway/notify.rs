//! `notification/route`: one agent notifies another. Nothing is stored, and the sender is not told whether it arrived.

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::agent::ConnectedAgent;

async fn route(from: &ConnectedAgent, target: Value, method: &str, params: Value) {
    from.notify(
        "notification/route",
        &json!({ "target": target, "deliver": { "method": method, "params": params } }),
    )
    .await;
}

/// Sends one more at the end, so that whatever came before has arrived or never will.
async fn events_until_now(from: &ConnectedAgent, by: &ConnectedAgent) -> Vec<Value> {
    let mark = crate::support::agent::random_hex(8);
    route(from, json!({ "type": "aid", "aid": by.aid() }), "event/app.mark", json!({ "mark": mark })).await;
    let mut events = Vec::new();
    loop {
        let event = by.next_event().await;
        if event["params"]["mark"] == mark {
            return events;
        }
        events.push(event);
    }
}

async fn session_at(server: &TestServer, first: &ConnectedAgent, device: &str, slot: &str) -> ConnectedAgent {
    server
        .connect_with(&first.identity, &first.tokens, |hello| {
            hello["device"]["id"] = json!(device);
            hello["client"]["slot_id"] = json!(slot);
        })
        .await
}

#[tokio::test]
async fn an_agent_gets_the_notification_of_another() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    let words = json!({ "text": "你好", "n": 1.50, "_inner": { "kept": true } });
    route(&alice, json!({ "type": "aid", "aid": carol.aid() }), "event/app.typing", words.clone()).await;
    let mut event = carol.next_event().await;
    let notify = event["params"].as_object_mut().and_then(|params| params.remove("_notify")).unwrap();
    assert_eq!(event, json!({ "jsonrpc": "2.0", "method": "event/app.typing", "params": words }));
    assert_eq!((&notify["from_aid"], &notify["ttl_ms"]), (&json!(alice.aid()), &json!(5000)));
    assert!(alice.events_so_far().await.is_empty(), "no answer and no echo");
}

#[tokio::test]
async fn a_notification_arrives_as_it_was_written() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    let params = r#"{"f":1.0,"e":1e3,"z":"\u00e9/é","a":[ 1 ]}"#;
    alice
        .send(&format!(
            r#"{{"jsonrpc":"2.0","method":"notification/route","params":{{"target":{{"type":"aid","aid":"{}"}},"deliver":{{"method":"event/app.raw","params":{params}}}}}}}"#,
            carol.aid()
        ))
        .await;
    assert!(carol.next_text().await.contains(params.trim_end_matches('}')), "byte for byte");
}

#[tokio::test]
async fn all_long_connections_of_the_target_hear_it_and_short_ones_do_not() {
    let server = TestServer::shared().await;
    let (alice, laptop) = (server.agent("alice").await, server.agent("carol").await);
    let phone = session_at(&server, &laptop, "phone", "default").await;
    let short = server
        .connect_with(&laptop.identity, &laptop.tokens, |hello| {
            hello["options"] = json!({ "kind": "short", "short_ttl_ms": 60_000 })
        })
        .await;
    route(&alice, json!({ "type": "aid", "aid": laptop.aid() }), "event/app.x", json!({})).await;
    for session in [&laptop, &phone] {
        assert_eq!(session.next_event().await["method"], "event/app.x");
    }
    assert!(short.events_so_far().await.is_empty());
}

#[tokio::test]
async fn a_device_or_a_slot_can_be_named() {
    let server = TestServer::shared().await;
    let (alice, laptop) = (server.agent("alice").await, server.agent("carol").await);
    let phone = session_at(&server, &laptop, "phone", "default").await;
    let other = session_at(&server, &laptop, "phone", "other/x").await;
    let to = |device: Option<&str>, slot: Option<&str>| {
        let mut target = json!({ "type": "aid", "aid": laptop.aid() });
        if let Some(device) = device {
            target["device_id"] = json!(device);
        }
        if let Some(slot) = slot {
            target["slot_id"] = json!(slot);
        }
        target
    };
    let notifications = [
        (to(Some("phone"), None), [false, true, true]),
        (to(Some("phone"), Some("other/x")), [false, false, true]),
        (to(Some("phone"), Some("other")), [false, false, true]),
        (to(Some("laptop"), Some("default")), [true, false, false]),
        (to(None, Some("default")), [false, false, false]), // a slot is one of a device
        (to(Some("tablet"), None), [false, false, false]),
        (to(Some("laptop"), Some("other")), [false, false, false]),
    ];
    for (target, expected) in notifications {
        route(&alice, target.clone(), "event/app.x", json!({})).await;
        for (session, expected) in [&laptop, &phone, &other].into_iter().zip(expected) {
            let events = events_without_marks(&alice, session).await;
            assert_eq!(events.len(), usize::from(expected), "{target}: {events:?}");
        }
    }
}

/// Like [`events_until_now`], where marks meant for other connections of the same agent may lie around.
async fn events_without_marks(from: &ConnectedAgent, by: &ConnectedAgent) -> Vec<Value> {
    let mut events = events_until_now(from, by).await;
    events.retain(|event| event["method"] != "event/app.mark");
    events
}

#[tokio::test]
async fn only_names_below_event_app_are_passed_on() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    let target = json!({ "type": "aid", "aid": carol.aid() });
    for method in [
        "event/gateway.disconnect",
        "event/message.received",
        "event/app",
        "event/app.",
        "event/application.x",
        "challenge",
        "app.x",
        "",
        "EVENT/APP.x",
        "event/app.x y",
        "event/app.\u{e9}",
        "event/app.x\n",
    ] {
        route(&alice, target.clone(), method, json!({})).await;
    }
    assert_eq!(events_until_now(&alice, &carol).await, Vec::<Value>::new());
}

#[tokio::test]
async fn malformed_notifications_reach_nobody_and_break_nothing() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    let deliver = json!({ "method": "event/app.x", "params": {} });
    let target = json!({ "type": "aid", "aid": carol.aid() });
    for params in [
        json!({}),
        json!({ "target": target }),
        json!({ "deliver": deliver }),
        json!({ "target": { "type": "everyone" }, "deliver": deliver }),
        json!({ "target": { "type": "aid", "aid": "Carol!" }, "deliver": deliver }),
        json!({ "target": { "type": "group", "aid": carol.aid() }, "deliver": deliver }),
        json!({ "target": target, "deliver": { "method": "event/app.x", "params": [1] } }),
        json!({ "target": target, "deliver": { "method": "event/app.x", "params": "text" } }),
        json!({ "target": target, "deliver": deliver, "ttl_ms": 60_001 }),
        json!({ "target": target, "deliver": deliver, "ttl_ms": -1 }),
    ] {
        alice.notify("notification/route", &params).await;
    }
    assert_eq!(events_until_now(&alice, &carol).await, Vec::<Value>::new());
    assert!(alice.events_so_far().await.is_empty(), "a notification is never answered");
    route(&alice, json!({ "type": "aid", "aid": "nobody1.agents.localhost" }), "event/app.x", json!({}))
        .await;
    assert_eq!(alice.call("meta.ping", &json!({})).await["pong"], true);
}

#[tokio::test]
async fn a_notification_has_at_most_64_kib() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    let target = json!({ "type": "aid", "aid": carol.aid() });
    route(&alice, target.clone(), "event/app.big", json!({ "pad": "x".repeat(60 << 10) })).await;
    route(&alice, target.clone(), "event/app.bigger", json!({ "pad": "x".repeat(64 << 10) })).await;
    let events = events_until_now(&alice, &carol).await;
    let names: Vec<&Value> = events.iter().map(|event| &event["method"]).collect();
    assert_eq!(names, ["event/app.big"]);
}

#[tokio::test]
async fn somebody_who_is_not_there_misses_it() {
    let server = TestServer::start().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    carol.close().await;
    server.at_most_sessions(1).await;
    route(&alice, json!({ "type": "aid", "aid": carol.aid() }), "event/app.x", json!({})).await;
    alice.call("meta.ping", &json!({})).await;
    let back = server.connect_with(&carol.identity, &carol.tokens, |_| ()).await;
    assert_eq!(events_until_now(&alice, &back).await, Vec::<Value>::new());
}

#[tokio::test]
async fn the_name_of_a_notification_called_with_an_id_is_no_method() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    let params = json!({ "target": { "type": "aid", "aid": carol.aid() }, "deliver": { "method": "event/app.x", "params": {} } });
    let answer = alice.try_call("notification/route", &params).await;
    let delivered = events_until_now(&alice, &carol).await.len();
    assert!(
        answer.is_ok() == (delivered == 1),
        "either it is refused or it is delivered: {answer:?}, {delivered}"
    );
}

#[tokio::test]
async fn notifications_come_in_the_order_they_were_sent() {
    let server = TestServer::shared().await;
    let (alice, carol) = (server.agent("alice").await, server.agent("carol").await);
    for n in 0..100 {
        route(&alice, json!({ "type": "aid", "aid": carol.aid() }), "event/app.n", json!({ "n": n })).await;
    }
    let events = events_until_now(&alice, &carol).await;
    let numbers: Vec<i64> = events.iter().filter_map(|event| event["params"]["n"].as_i64()).collect();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
}
