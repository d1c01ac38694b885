//! `message.send`: what it accepts, what it answers, and what it refuses.

use serde_json::{Value, json};

use crate::message::{
    BUSY, events_until_now, message, named, pull, received, refusal, rows, say, send, seqs, two, until_online,
};
use crate::support::{ISSUER, TestServer, now_ms};

#[tokio::test]
async fn a_message_arrives_with_everything_its_reader_needs() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let before = now_ms();
    let sent = send(&alice, named(bob.aid(), "m-1", "hello")).await;
    assert_eq!(sent["message_id"], "m-1", "the id is the sender's, unchanged");
    assert_eq!(
        (&sent["seq"], &sent["status"], &sent["delivery_mode"]),
        (&json!(1), &json!("delivered"), &json!("fanout"))
    );
    let time = sent["timestamp"].as_i64().unwrap();
    assert!((before..=now_ms()).contains(&time), "milliseconds of the server: {sent}");

    let event = received(&bob).await;
    assert_eq!(event["encrypted"], false, "as the seed has it: {event}");
    assert!(rows(&pull(&bob).await)[0].get("encrypted").is_none(), "in a page only where it is true");
    for row in [&event, &rows(&pull(&bob).await)[0]] {
        assert_eq!(row["message_id"], "m-1");
        assert_eq!(row["seq"], 1);
        assert_eq!((&row["from"], &row["to"]), (&json!(alice.aid()), &json!(bob.aid())));
        assert_eq!(row["timestamp"], time);
        assert_eq!(row["payload"], json!({ "type": "text", "text": "hello" }));
        assert_eq!(row["delivery_mode"], "fanout");
        assert_eq!((&row["device_id"], &row["sender_device_id"]), (&json!("laptop"), &json!("laptop")));
        assert!(
            row.get("slot_id").is_none() && row.get("target_device_id").is_none(),
            "clients filter by these: {row}"
        );
    }
}

#[tokio::test]
async fn a_message_without_an_id_gets_one_that_grows_with_time() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(crate::support::agent::text(&say(&alice, &bob, &n.to_string()).await["message_id"]));
    }
    assert!(ids.is_sorted(), "{ids:?}");
    let mut unique = ids.clone();
    unique.dedup();
    assert_eq!(unique.len(), 20);
    assert_eq!(crate::message::ids(&pull(&bob).await), ids);
}

#[tokio::test]
async fn somebody_who_is_away_gets_it_later() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    bob.close().await;
    until_online(&alice, bob.aid(), false).await;
    let sent = say(&alice, &bob, "while you were out").await;
    assert_eq!((&sent["status"], &sent["seq"]), (&json!("sent"), &json!(1)));
    let bob = server.reconnect(&bob).await;
    assert_eq!(
        events_until_now(&alice, &bob).await,
        Vec::<Value>::new(),
        "what was missed is pulled, not pushed again"
    );
    assert_eq!(rows(&pull(&bob).await)[0]["payload"]["text"], "while you were out");
}

#[tokio::test]
async fn what_the_sender_says_about_time_is_ignored() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut params = message(bob.aid(), "hello");
    params["timestamp"] = json!(1);
    params["persist"] = json!(false);
    params["durable"] = json!(false);
    params["persist_required"] = json!(true);
    let before = now_ms();
    let sent = send(&alice, params).await;
    assert!(sent["timestamp"].as_i64().unwrap() >= before, "{sent}");
    assert_eq!(rows(&pull(&bob).await)[0]["timestamp"], sent["timestamp"]);
}

#[tokio::test]
async fn what_is_not_understood_is_ignored() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut params = message(bob.aid(), "hello");
    params["colour"] = json!("green");
    params["_auth"] = json!({ "aid": "somebody.else" });
    params["ttl"] = json!(0);
    assert_eq!(send(&alice, params).await["status"], "delivered");
    assert_eq!(received(&bob).await["from"], alice.aid());
}

#[tokio::test]
async fn a_message_to_oneself_is_a_message() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let phone = server.connect_device(&alice, "phone", "default").await;
    let sent = say(&alice, &alice, "note to self").await;
    assert_eq!(sent["status"], "delivered");
    for device in [&alice, &phone] {
        assert_eq!(received(device).await["payload"]["text"], "note to self");
        assert_eq!(seqs(&pull(device).await), [1]);
    }
}

#[tokio::test]
async fn one_device_can_be_chosen_and_only_it_gets_the_message() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    let mut params = message(bob.aid(), "to the phone");
    params["to_device_id"] = json!("phone");
    assert_eq!(send(&alice, params.clone()).await["seq"], 1);
    params["to_device_id"] = json!("laptop");
    params["device_id"] = json!("phone");
    assert_eq!(send(&alice, params).await["seq"], 2, "device_id goes before to_device_id");
    assert_eq!(seqs(&pull(&phone).await), [1, 2]);
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new());
    assert_eq!(seqs(&pull(&bob).await), [1], "only the mark");
}

#[tokio::test]
async fn a_message_for_a_device_that_is_away_is_sent_and_not_delivered() {
    let server = TestServer::start().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    phone.close().await;
    server.at_most_sessions(2).await;
    let mut params = message(bob.aid(), "to the phone");
    params["device_id"] = json!("phone");
    assert_eq!(send(&alice, params).await["status"], "sent", "nobody was told");
    assert_eq!(say(&alice, &bob, "to both").await["status"], "delivered", "one of them was");
}

#[tokio::test]
async fn a_device_that_does_not_exist_is_an_error_and_never_everybody() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut params = message(bob.aid(), "to nobody");
    params["device_id"] = json!("tablet");
    let error = refusal(&alice, "message.send", params).await;
    assert_eq!((&error["code"], &error["data"]["retryable"]), (&json!(-33011), &json!(false)), "{error}");
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new());
    assert_eq!(seqs(&pull(&bob).await), [1], "no seq was used");
}

#[tokio::test]
async fn whoever_is_not_registered_here_cannot_get_messages() {
    let server = TestServer::shared().await;
    let (alice, _bob) = two(&server).await;
    let error = refusal(&alice, "message.send", message("nobody.agents.localhost", "hello")).await;
    assert_eq!((&error["code"], &error["data"]["retryable"]), (&json!(-32008), &json!(false)), "{error}");
    let error = refusal(&alice, "message.send", message("carol.elsewhere.example", "hello")).await;
    assert_eq!(error["code"], -32010, "{error}");
    for _ in 0..2 {
        let service = format!("auth.{ISSUER}");
        let error = refusal(&alice, "message.send", message(&service, "hello")).await;
        assert_eq!(error["code"], -32008, "a service has a certificate and is no agent: {error}");
        let thought = json!({ "to": service, "context": { "type": "run", "id": "r-1" }, "payload": {} });
        assert_eq!(refusal(&alice, "message.thought.put", thought).await["code"], -32008);
    }
    let newcomer = server.agent("nobody").await;
    assert_eq!(pull(&newcomer).await["count"], 0, "what was refused is not there later");
    assert_eq!(say(&alice, &newcomer, "now").await["seq"], 1, "and was not remembered as unknown");
}

#[tokio::test]
async fn a_message_needs_a_recipient_and_an_object_or_a_string() {
    let server = TestServer::with("limits.frame_bytes = 4194304").await;
    let (alice, bob) = two(&server).await;
    for params in [
        json!({}),
        json!({ "to": bob.aid() }),
        json!({ "payload": {} }),
        json!({ "to": bob.aid(), "payload": ["list"] }),
        json!({ "to": bob.aid(), "payload": null }),
        json!({ "to": bob.aid(), "payload": 7 }),
        json!({ "to": 7, "payload": {} }),
        json!({ "to": "", "payload": {} }),
        json!({ "to": "bobb", "payload": {} }),
        json!({ "to": "b.agents.localhost", "payload": {} }),
        json!({ "to": "bo bb.agents.localhost", "payload": {} }),
        json!({ "to": "-bobb.agents.localhost", "payload": {} }),
        json!({ "to": bob.aid(), "payload": {}, "message_id": 7 }),
        json!({ "to": bob.aid(), "payload": {}, "delivery_mode": "telepathy" }),
        json!({ "to": bob.aid(), "payload": {}, "delivery_mode": { "mode": 7 } }),
        json!({ "to": bob.aid(), "payload": {}, "ttl": "soon" }),
        json!({ "to": bob.aid(), "payload": {}, "encrypted": "yes" }),
    ] {
        let error = refusal(&alice, "message.send", params.clone()).await;
        assert_eq!(
            (&error["code"], &error["data"]["kind"]),
            (&json!(-32602), &json!("invalid_params")),
            "{params}: {error}"
        );
    }
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new());
    assert_eq!(seqs(&pull(&bob).await), [1], "none of them used a seq");
}

#[tokio::test]
async fn an_empty_payload_is_a_payload() {
    let server = TestServer::shared_with(BUSY).await;
    let (alice, bob) = two(&server).await;
    send(&alice, json!({ "to": bob.aid(), "payload": {} })).await;
    assert_eq!(received(&bob).await["payload"], json!({}));
}

#[tokio::test]
async fn nobody_can_pretend_to_write_from_another_device() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let payload = json!({
        "text": "hi", "sender_device_id": "x", "_sender_device_id": "x", "from_device_id": "x", "from_device": "x",
        "inner": { "sender_device_id": "kept" },
    });
    send(&alice, json!({ "to": bob.aid(), "payload": payload, "sender_device_id": "x" })).await;
    let clean = json!({ "text": "hi", "inner": { "sender_device_id": "kept" } });
    for row in [&received(&bob).await, &rows(&pull(&bob).await)[0]] {
        assert_eq!(row["payload"], clean);
        assert_eq!(row["sender_device_id"], "laptop");
    }

    // Whatever else it says, and whatever its sender says about it.
    let words = json!({ "text": "about \"e2ee.encrypted\"", "about": "e2ee.encrypted" });
    let envelope =
        json!({ "type": "e2ee.encrypted", "ciphertext": "c2VjcmV0", "aad": { "from_device": "kept" } });
    for clean in [words, envelope] {
        for encrypted in [false, true] {
            let mut payload = clean.clone();
            for claim in ["sender_device_id", "_sender_device_id", "from_device_id", "from_device"] {
                payload[claim] = json!("x");
            }
            send(&alice, json!({ "to": bob.aid(), "payload": payload, "encrypted": encrypted })).await;
            let row = received(&bob).await;
            assert_eq!(
                (&row["payload"], &row["sender_device_id"]),
                (&clean, &json!("laptop")),
                "{encrypted}"
            );
        }
    }
}
