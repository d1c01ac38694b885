//! `message.read` and `message.read_state`: what an agent has read on any of its devices.

use serde_json::{Value, json};

use crate::message::{ask, events_until_now, named, next, received, send, two};
use crate::support::TestServer;

#[tokio::test]
async fn what_was_read_on_one_device_is_told_to_the_others() {
    let mut server = TestServer::start().await;
    let (alice, bob) = two(&server).await;
    let (phone, brief) =
        (server.connect_device(&bob, "phone", "default").await, server.connect_short(&bob).await);
    send(&alice, named(bob.aid(), "m-1", "one")).await;
    send(&alice, named(bob.aid(), "m-2", "two")).await;
    assert_eq!(events_until_now(&alice, &bob).await.len(), 2);
    for _ in 0..3 {
        received(&phone).await;
    }
    let read = |id: &str| json!({ "states": [{ "scope": "p2p", "topic_key": "alice", "last_read_message_id": id }] });
    assert_eq!(ask(&bob, "message.read", read("m-2")).await["updated"], 1);
    let event = next(&phone, "event/message.read_changed").await;
    assert_eq!((&event["owner_aid"], &event["topic_key"]), (&json!(bob.aid()), &json!("alice")));
    assert_eq!((&event["last_read_message_id"], &event["scope"]), (&json!("m-2"), &json!("p2p")));
    assert!(event["last_read_order"].as_i64().is_some_and(|order| order > 0));

    let back = ask(&phone, "message.read", read("m-1")).await;
    assert_eq!((&back["updated"], &back["ignored"]), (&json!(0), &json!(1)), "it only goes forward");
    assert_eq!(
        bob.events_so_far().await,
        Vec::<Value>::new(),
        "the one that said so is not told, and nothing changed"
    );
    assert_eq!(brief.events_so_far().await, Vec::<Value>::new());
    server.restart().await;
    let bob = server.reconnect(&bob).await;
    let state = ask(&bob, "message.read_state", json!({ "scope": "p2p", "topic_key": "alice" })).await;
    assert_eq!(state["states"][0]["last_read_message_id"], "m-2");
    assert_eq!(
        (&state["states"][0]["current_device_seq"], &state["states"][0]["mapping_status"]),
        (&json!(2), &json!("resolved"))
    );
}

fn last_read(topic: &str, id: &str) -> Value {
    json!({ "topic_key": topic, "last_read_message_id": id })
}

#[tokio::test]
async fn a_message_to_one_device_is_no_news_to_the_others() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    let mut only = named(bob.aid(), "m-only", "for one device");
    only["device_id"] = json!(bob.device());
    send(&alice, only).await;
    assert_eq!(received(&bob).await["message_id"], "m-only");

    assert_eq!(ask(&bob, "message.read", last_read("alice", "m-only")).await["updated"], 1);
    assert_eq!(events_until_now(&alice, &phone).await, Vec::<Value>::new());
    for device in [&bob, &phone] {
        let state = ask(device, "message.read_state", json!({ "topic_key": "alice" })).await;
        assert_eq!(state["states"], json!([]), "the shared position has not moved");
    }
}

#[tokio::test]
async fn a_position_that_comes_before_its_message_counts_when_the_message_has_come() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    assert_eq!(ask(&bob, "message.read", last_read("alice", "m-2")).await["updated"], 1);
    for id in ["m-1", "m-2"] {
        send(&alice, named(bob.aid(), id, id)).await;
    }
    assert_eq!(ask(&bob, "message.read", last_read("alice", "m-1")).await["updated"], 0, "it is further");
    let state = ask(&bob, "message.read_state", json!({ "topic_key": "alice" })).await;
    assert_eq!(
        (&state["last_read_message_id"], &state["mapping_status"]),
        (&json!("m-2"), &json!("resolved"))
    );
    assert!(state["last_read_order"].as_i64().is_some_and(|order| order > 0), "{state}");
}
