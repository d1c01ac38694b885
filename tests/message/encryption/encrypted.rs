//! Encrypted envelopes of the second generation: one body, a wrapped key for each device, and a proof that it belongs.

use serde_json::{Value, json};

use crate::message::{events_until_now, next, pull, rows, say, send, seqs, two, v2_pull};
use crate::support::TestServer;
use crate::support::agent::ConnectedAgent;
use crate::support::envelope::{envelope, opened, put_key, row, row_for, sealed};

/// An envelope is untouched but for the rows: what a device opens is what was sent.
fn is_body_of(opened: &Value, sent: &Value) {
    let (mut opened, mut sent) = (opened.clone(), sent.clone());
    for extra in ["recipient", "merkle_proof", "delivery_device_id", "agent_md"] {
        opened.as_object_mut().expect("an object").remove(extra);
    }
    sent.as_object_mut().expect("an object").remove("recipients");
    assert_eq!(opened, sent);
}

async fn notification(agent: &ConnectedAgent) -> Value {
    next(agent, "event/peer.v2.message_received").await
}

#[tokio::test]
async fn a_hand_made_envelope_is_stored_notified_and_read() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    let params = sealed(&alice, bob.aid(), "m-1");
    let sent = send(&alice, params.clone()).await;
    assert_eq!(
        (&sent["seq"], &sent["status"], &sent["message_id"]),
        (&json!(1), &json!("delivered"), &json!("m-1"))
    );

    let event = notification(&bob).await;
    assert_eq!((&event["seq"], &event["message_id"]), (&json!(1), &json!("m-1")));
    assert_eq!((&event["from_aid"], &event["sender_aid"]), (&json!(alice.aid()), &json!(alice.aid())));
    assert_eq!((&event["to"], &event["device_id"]), (&json!(bob.aid()), &json!("laptop")));

    let page = v2_pull(&bob).await;
    let row = &rows(&page)[0];
    assert_eq!((&row["version"], &row["seq"], &row["spk_id"]), (&json!("v2"), &json!(1), &json!("")));
    assert_eq!((&row["from_aid"], &row["device_id"]), (&json!(alice.aid()), &json!("laptop")));
    assert_eq!((&row["sender_device_id"], &row["t_server"]), (&json!("laptop"), &sent["timestamp"]));
    let opened = opened(&row["envelope_json"]);
    is_body_of(&opened, &params["payload"]);
    assert_eq!(
        (&opened["recipient"]["device_id"], &opened["delivery_device_id"]),
        (&json!(""), &json!("laptop"))
    );
    assert_eq!(opened["merkle_proof"], json!([]));
}

#[tokio::test]
async fn the_id_may_stand_in_the_envelope_alone() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    let mut params = sealed(&alice, bob.aid(), "m-inside");
    params.as_object_mut().unwrap().remove("message_id");
    assert_eq!(send(&alice, params.clone()).await["message_id"], "m-inside");
    assert_eq!(send(&alice, params).await["status"], "duplicate");
}

#[tokio::test]
async fn one_key_for_an_agent_reaches_every_device_that_can_decrypt() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let (phone, old) = (
        server.connect_device(&bob, "phone", "default").await,
        server.connect_device(&bob, "old", "default").await,
    );
    put_key(&bob).await;
    put_key(&phone).await;
    send(&alice, sealed(&alice, bob.aid(), "m-1")).await;
    for device in [&bob, &phone] {
        assert_eq!(notification(device).await["device_id"], device.device());
        let page = v2_pull(device).await;
        assert_eq!(opened(&rows(&page)[0]["envelope_json"])["delivery_device_id"], device.device());
    }
    assert_eq!(events_until_now(&alice, &old).await, Vec::<Value>::new(), "it has no key");
    assert_eq!(seqs(&v2_pull(&old).await), [1], "only the mark");
}

#[tokio::test]
async fn keys_for_devices_reach_those_devices_each_with_its_proof() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let (phone, tablet) = (
        server.connect_device(&bob, "phone", "default").await,
        server.connect_device(&bob, "tablet", "default").await,
    );
    let own = server.connect_device(&alice, "phone", "default").await;
    for device in [&bob, &phone, &tablet, &own, &alice] {
        put_key(device).await;
    }
    let rows_sent = [
        row_for(alice.aid(), "phone", "self_sync"),
        row_for(bob.aid(), "laptop", "peer"),
        row_for(bob.aid(), "phone", "peer"),
    ];
    let payload = envelope(&alice, bob.aid(), "m-1", &rows_sent);
    let sent = send(&alice, json!({ "to": bob.aid(), "message_id": "m-1", "payload": payload })).await;
    assert_eq!(sent["seq"], 1);
    for (device, wrapped) in [(&bob, &rows_sent[1]), (&phone, &rows_sent[2]), (&own, &rows_sent[0])] {
        assert_eq!(notification(device).await["seq"], 1);
        let page = v2_pull(device).await;
        let opened = opened(&rows(&page)[0]["envelope_json"]);
        is_body_of(&opened, &payload);
        assert_eq!(opened["recipient"]["wrapped_key"], wrapped.json()[7], "its own key and no other");
        assert!(!opened["merkle_proof"].as_array().unwrap().is_empty());
        assert_eq!(rows(&page)[0]["spk_id"], wrapped.json()[5]);
    }
    assert_eq!(events_until_now(&alice, &tablet).await, Vec::<Value>::new());
    assert_eq!(pull(&tablet).await["count"], 1, "only the mark");
}

#[tokio::test]
async fn the_sender_s_other_devices_get_their_copy_and_the_sending_one_does_not() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let (phone, slot) = (
        server.connect_device(&alice, "phone", "default").await,
        server.connect_device(&alice, "laptop", "second").await,
    );
    for device in [&alice, &phone, &bob] {
        put_key(device).await;
    }
    let rows_sent = [row(alice.aid(), "self_sync"), row(bob.aid(), "peer")];
    let payload = envelope(&alice, bob.aid(), "m-1", &rows_sent);
    let sent = send(&alice, json!({ "to": bob.aid(), "payload": payload })).await;
    assert_eq!(sent["seq"], 1, "the seq at the recipient");
    let event = notification(&phone).await;
    assert_eq!((&event["from_aid"], &event["to"]), (&json!(alice.aid()), &json!(bob.aid())));
    let page = v2_pull(&phone).await;
    assert_eq!(rows(&page)[0]["direction"], "outbound_sync");
    assert_eq!(opened(&rows(&page)[0]["envelope_json"])["recipient"]["role"], "self_sync");
    notification(&bob).await;
    for session in [&alice, &slot] {
        let events = events_until_now(&bob, session).await;
        assert!(
            events.iter().all(|event| event["method"] == "event/message.received"),
            "marks only: {events:?}"
        );
    }
    assert!(rows(&v2_pull(&alice).await).iter().all(|row| row["version"] == "v1"), "only the marks");
    assert!(rows(&v2_pull(&bob).await)[0].get("direction").is_none());
}

#[tokio::test]
async fn an_encrypted_message_to_oneself_reaches_the_other_devices() {
    let server = TestServer::shared().await;
    let alice = server.agent("alice").await;
    let phone = server.connect_device(&alice, "phone", "default").await;
    put_key(&alice).await;
    put_key(&phone).await;
    let payload = envelope(&alice, alice.aid(), "m-1", &[row_for(alice.aid(), "phone", "peer")]);
    send(&alice, json!({ "to": alice.aid(), "payload": payload })).await;
    assert_eq!(notification(&phone).await["message_id"], "m-1");
}

#[tokio::test]
async fn somebody_who_was_away_reads_it_later() {
    let mut server = TestServer::start().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    bob.close().await;
    server.at_most_sessions(1).await;
    let params = sealed(&alice, bob.aid(), "m-1");
    assert_eq!(send(&alice, params.clone()).await["status"], "sent", "its key outlives the connection");
    server.restart().await;
    let (alice, bob) = (server.reconnect(&alice).await, server.reconnect(&bob).await);
    is_body_of(&opened(&rows(&v2_pull(&bob).await)[0]["envelope_json"]), &params["payload"]);
    assert_eq!(
        send(&alice, sealed(&alice, bob.aid(), "m-2")).await["status"],
        "delivered",
        "and the server's restart"
    );
    assert_eq!(say(&bob, &alice, "thanks").await["seq"], 1);
}

#[tokio::test]
async fn an_encrypted_message_can_be_recalled() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&alice, "phone", "default").await;
    for device in [&bob, &phone] {
        put_key(device).await;
    }
    let payload =
        envelope(&alice, bob.aid(), "m-1", &[row(alice.aid(), "self_sync"), row(bob.aid(), "peer")]);
    let ciphertext = crate::support::agent::text(&payload["ciphertext"]);
    send(&alice, json!({ "to": bob.aid(), "payload": payload })).await;
    let recalled = alice.call("message.recall", &json!({ "message_ids": ["m-1"] })).await;
    assert_eq!(recalled["recalled"], 1);
    for device in [&bob, &phone] {
        let page = v2_pull(device).await;
        assert!(!page.to_string().contains(&ciphertext), "{} still has it", device.device());
        assert_eq!(
            (&rows(&page)[0]["version"], &rows(&page)[0]["type"]),
            (&json!("v1"), &json!("message.recalled"))
        );
    }
    assert_eq!(seqs(&v2_pull(&bob).await), [1, 2], "and the notice");
}

#[tokio::test]
async fn notifications_come_in_order_and_one_for_each_message() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    for n in 1..=20 {
        send(&alice, sealed(&alice, bob.aid(), &format!("m-{n}"))).await;
    }
    for n in 1..=20 {
        assert_eq!(notification(&bob).await["seq"], n);
    }
}
