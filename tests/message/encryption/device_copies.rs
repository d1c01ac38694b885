//! Encrypted messages of the first generation: one copy for each device, cut out byte for byte.

use serde_json::{Value, json};

use crate::message::{events_until_now, pull, received, refusal, rows, send, seqs, two, v2_pull};
use crate::support::TestServer;

fn copy(device: &str, secret: &str) -> Value {
    json!({ "device_id": device, "envelope": { "type": "e2ee.encrypted", "version": "1", "ciphertext": secret } })
}

fn multi(to: &str, id: &str, recipients: Value, own: Value) -> Value {
    json!({
        "to": to, "message_id": id, "type": "e2ee.multi_device", "encrypted": true, "timestamp": 1,
        "payload": {
            "type": "e2ee.multi_device", "logical_message_id": id, "recipient_copies": recipients, "self_copies": own,
        },
    })
}

#[tokio::test]
async fn each_device_gets_its_own_copy() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let (phone, own) = (
        server.connect_device(&bob, "phone", "default").await,
        server.connect_device(&alice, "phone", "default").await,
    );
    let params = multi(
        bob.aid(),
        "m-1",
        json!([copy("laptop", "for the laptop"), copy("phone", "for the phone"), copy("lost", "for nobody")]),
        json!([copy("phone", "for my phone")]),
    );
    let sent = send(&alice, params.clone()).await;
    assert_eq!(
        (&sent["message_id"], &sent["seq"], &sent["status"]),
        (&json!("m-1"), &json!(1), &json!("delivered"))
    );
    for (device, secret) in [(&bob, "for the laptop"), (&phone, "for the phone"), (&own, "for my phone")] {
        let event = received(device).await;
        for row in [&event, &rows(&pull(device).await)[0]] {
            assert_eq!(
                row["payload"],
                json!({ "type": "e2ee.encrypted", "version": "1", "ciphertext": secret })
            );
            assert_eq!((&row["type"], &row["encrypted"]), (&json!("e2ee.encrypted"), &json!(true)));
            assert_eq!(
                (&row["from"], &row["to"]),
                (&json!(alice.aid()), &json!(bob.aid())),
                "the reader compares them"
            );
            assert_eq!((&row["message_id"], &row["seq"]), (&json!("m-1"), &json!(1)));
            let direction = (device.aid() == alice.aid()).then(|| json!("outbound_sync"));
            assert_eq!(row.get("direction"), direction.as_ref());
        }
        let page = v2_pull(device).await;
        let row = &rows(&page)[0];
        assert_eq!((&row["version"], &row["encrypted"]), (&json!("v1"), &json!(true)));
        assert_eq!(row["legacy_v1"]["payload"]["ciphertext"], secret);
    }
    assert_eq!(events_until_now(&bob, &alice).await, Vec::<Value>::new(), "the sending device gets none");
    assert_eq!(send(&alice, params).await["status"], "duplicate");
}

#[tokio::test]
async fn a_device_without_a_copy_gets_none_and_has_no_hole() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    send(&alice, multi(bob.aid(), "m-1", json!([copy("laptop", "x")]), json!([]))).await;
    assert_eq!(events_until_now(&alice, &phone).await, Vec::<Value>::new());
    assert_eq!(seqs(&pull(&phone).await), [1], "the mark");
    assert_eq!(seqs(&pull(&bob).await), [1, 2]);
}

#[tokio::test]
async fn copies_for_devices_nobody_has_are_no_message() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let params = multi(bob.aid(), "m-1", json!([copy("lost", "x")]), json!([]));
    let error = refusal(&alice, "message.send", params).await;
    assert!(error["code"].as_i64().unwrap() < 0, "{error}");
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new());
    let sent = send(&alice, multi(bob.aid(), "m-1", json!([copy("laptop", "x")]), json!([]))).await;
    assert_eq!(sent["status"], "delivered", "the id was not used up");
}

#[tokio::test]
async fn a_single_encrypted_message_goes_to_every_device_without_what_it_claims_of_devices() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    let payload = json!({ "type": "e2ee.encrypted", "ciphertext": "x" });
    let mut claimed = payload.clone();
    claimed["sender_device_id"] = json!("phone");
    send(&alice, json!({ "to": bob.aid(), "payload": claimed, "type": "e2ee.encrypted", "encrypted": true }))
        .await;
    for device in [&bob, &phone] {
        let event = received(device).await;
        assert_eq!(
            (&event["payload"], &event["encrypted"], &event["type"]),
            (&payload, &json!(true), &json!("e2ee.encrypted"))
        );
    }
}

#[tokio::test]
async fn copies_that_are_none_are_refused() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    for recipients in [json!(7), json!([7]), json!([{ "device_id": "laptop" }]), json!([])] {
        let error =
            refusal(&alice, "message.send", multi(bob.aid(), "m-1", recipients.clone(), json!([]))).await;
        assert!(error["code"].as_i64().unwrap() < 0 && error["code"] != -32603, "{recipients}: {error}");
    }
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new());
}
