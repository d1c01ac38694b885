//! `notification/route` beside messages: the server says who sent it, and nothing of it is stored.

use serde_json::{Value, json};

use crate::message::{pull, two};
use crate::support::TestServer;
use crate::support::agent::ConnectedAgent;

async fn route(from: &ConnectedAgent, target: Value, params: Value) {
    let deliver = json!({ "method": "event/app.note", "params": params });
    from.notify("notification/route", &json!({ "target": target, "deliver": deliver, "ttl_ms": 7000 })).await;
}

#[tokio::test]
async fn the_server_says_who_sent_it_whatever_the_sender_says() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let forged = json!({ "n": 1, "_notify": { "from_aid": "mallory.agents.localhost", "group_id": "g" } });
    route(&alice, json!({ "type": "aid", "aid": bob.aid() }), forged).await;
    let event = bob.next_event().await;
    assert_eq!((&event["method"], &event["params"]["n"]), (&json!("event/app.note"), &json!(1)));
    let notify = &event["params"]["_notify"];
    assert_eq!((&notify["from_aid"], &notify["device_id"]), (&json!(alice.aid()), &json!("laptop")));
    assert_eq!((&notify["slot_id"], &notify["ttl_ms"]), (&json!("default"), &json!(7000)));
    assert!(notify["connection_id"].is_string() && notify["sent_at"].is_i64(), "{notify}");
    assert!(notify.get("group_id").is_none(), "{notify}");
}

#[tokio::test]
async fn a_notification_is_for_long_connections_and_is_not_stored() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let (phone, brief) =
        (server.connect_device(&bob, "phone", "default").await, server.connect_short(&bob).await);
    route(&alice, json!({ "type": "aid", "aid": bob.aid(), "slot_id": "default" }), json!({ "n": 0 })).await;
    route(&alice, json!({ "type": "aid", "aid": bob.aid(), "device_id": "phone" }), json!({ "n": 1 })).await;
    assert_eq!(
        phone.next_event().await["params"]["n"],
        1,
        "a slot is one of a device, so the first reached nobody"
    );
    route(&alice, json!({ "type": "aid", "aid": bob.aid() }), json!({ "n": 2 })).await;
    assert_eq!(bob.next_event().await["params"]["n"], 2);
    assert_eq!(brief.events_so_far().await, Vec::<Value>::new());
    assert_eq!(pull(&bob).await["count"], 0);
}
