//! The device of a webhook: who reads by it, what is sent by it, and that it stays.

use super::*;
use crate::v2::put_peer_pk::key_id;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Curve, Key};
use testing::spki;

async fn put(test: &TestWorld, agent: &TestAgent) {
    test.inside("message.webhook.put_device", json!({ "aid": agent.aid })).await;
}

async fn next(test: &TestWorld, agent: &TestAgent) -> Value {
    test.inside("message.webhook.next", json!({ "aid": agent.aid })).await
}

async fn ack(test: &TestWorld, agent: &TestAgent, seq: i64, skipped: bool) -> Value {
    let params = json!({ "aid": agent.aid, "seq": seq, "skipped": skipped });
    test.inside("message.webhook.ack", params).await["ack_seq"].take()
}

/// An envelope from an agent's webhook for the device `c` of another.
fn sealed(test: &TestWorld, from: &TestAgent, to: &TestAgent, device: &str) -> Value {
    let (key, fp) = ("AAAA".repeat(16), "sha256:0011223344556677");
    let row = [to.aid.as_str(), device, "peer", "peer_device_prekey", fp, fp, "AAAAAAAAAAAAAAAA", &key];
    let rows = [row.map(str::to_owned)];
    json!({
        "type": "e2ee.p2p_encrypted", "version": "v2", "suite": "P256_HKDF_SHA256_AES_256_GCM",
        "t_send": test.world.clock.now_ms(), "ciphertext": "AAAA", "recipients_digest": envelope::digest(&rows),
        "recipients": rows, "aad": { "from": from.aid, "from_device": "webhook", "to": to.aid, "message_id": "m-1" },
    })
}

/// A signed prekey of an agent.
fn spk(test: &TestWorld, agent: &TestAgent) -> Value {
    let (key, timestamp) = (Key::generate(Curve::P256), test.world.clock.now_seconds());
    let der = key.public().spki_der().to_vec();
    let id = key_id(&der);
    let text = [der.as_slice(), id.as_bytes(), timestamp.to_string().as_bytes()].concat();
    json!({ "peer_aid": agent.aid, "spk_id": id, "spk_pk": spki(&key), "spk_timestamp": timestamp,
            "spk_signature": STANDARD.encode(agent.key.sign_fixed(&text)) })
}

#[tokio::test]
async fn a_webhook_gets_the_messages_of_its_device_one_after_the_other() {
    let (test, alice, carol) = two().await;
    let from = AgentDevice { agent: &alice, device: "a" };
    assert_eq!(next(&test, &carol).await, json!({ "device": false }));
    from.send(&test, &carol, "before").await.unwrap();
    put(&test, &carol).await;
    assert_eq!(next(&test, &carol).await, json!({ "device": true }), "it is not the first device");
    for text in ["one", "two"] {
        from.send(&test, &carol, text).await.unwrap();
    }
    let volatile = json!({ "to": carol.aid, "payload": {}, "ttl": 60 });
    from.call(&test, "message.send", volatile).await.unwrap();
    let waits = json!({ "aids": [alice.aid, carol.aid] });
    let waiting = test.inside("message.webhook.waiting", waits.clone()).await;
    assert_eq!(waiting["waiting"], json!([{ "aid": carol.aid, "seq": 2 }]));
    let first = next(&test, &carol).await;
    assert_eq!((&first["next"]["message_id"], &first["next"]["seq"]), (&json!("one"), &json!(1)));
    assert_eq!(first["next"]["message"]["encrypted"], false);
    assert_eq!(next(&test, &carol).await, first, "until it is acknowledged");
    assert_eq!(ack(&test, &carol, 1, false).await, 1);
    assert_eq!(next(&test, &carol).await["next"]["message_id"], "two");
    let test = test.restart().await;
    assert_eq!(next(&test, &carol).await["next"]["message_id"], "two");
    assert_eq!(ack(&test, &carol, 2, true).await, 2);
    assert_eq!(next(&test, &carol).await, json!({ "device": true }));
    assert_eq!(test.inside("message.webhook.waiting", waits).await["waiting"], json!([]));
    let mut connected = AgentDevice { agent: &carol, device: "c" }.everything(&test).await;
    // PostgreSQL has the volatile message after a restart, too.
    connected.retain(|row| row["seq"].is_i64());
    assert_eq!(texts(&connected), ["before", "one", "two"], "other devices are not changed");
}

#[tokio::test]
async fn queue_messages_are_sent_while_they_have_content_and_stepped_over_after_that() {
    let (test, alice, carol) = (TestWorld::with(&["ca", "auth", "agent"]).and(open).await, "alice", "carol");
    let (alice, carol) = (test.register(alice).await, test.register(carol).await);
    put(&test, &carol).await;
    let from = AgentDevice { agent: &alice, device: "a" };
    let queue =
        |id: &str| json!({ "to": carol.aid, "message_id": id, "payload": {}, "delivery_mode": "queue" });
    from.call(&test, "message.send", queue("one")).await.unwrap();
    assert_eq!(next(&test, &carol).await["next"]["message_id"], "one");
    test.world.clock.advance_ms(300_001);
    assert_eq!(next(&test, &carol).await, json!({ "device": true }));
    let waiting = test.inside("message.webhook.waiting", json!({ "aids": [carol.aid] })).await;
    assert_eq!(waiting["waiting"], json!([]), "it is not asked for again");
    from.send(&test, &carol, "two").await.unwrap();
    assert_eq!(next(&test, &carol).await["next"]["message_id"], "two");
}

#[tokio::test]
async fn the_device_is_never_removed_for_others_nor_for_its_age() {
    let (test, _, carol) = two().await;
    put(&test, &carol).await;
    let settings = Settings { devices_per_agent: 16, ..Settings::default() };
    let service = MessageService::open(&test.world, &settings).await.unwrap();
    let aid = Aid::parse(&carol.aid).unwrap();
    for number in 0..20 {
        test.world.clock.advance_ms(1);
        let device = DeviceId::parse(&format!("d{number}")).unwrap();
        service.inboxes.join(&aid, &device, service.clock.now_ms()).await.unwrap();
    }
    test.world.clock.advance_ms(91 * DAY_MS);
    let last = DeviceId::parse("last").unwrap();
    service.inboxes.join(&aid, &last, service.clock.now_ms()).await.unwrap();
    service.remove_forgotten().await;
    let left = service.inboxes.of(&aid).await.unwrap();
    let left: Vec<&str> = left.iter().map(|inbox| inbox.device.as_str()).collect();
    assert_eq!(left, ["webhook", "last"]);
}

#[tokio::test]
async fn a_device_of_that_name_which_no_webhook_reads_is_not_removed_with_one() {
    let (test, alice, carol) = two().await;
    let connected = AgentDevice { agent: &carol, device: "webhook" };
    connected.join(&test).await;
    test.inside("message.webhook.remove_device", json!({ "aid": carol.aid })).await;
    AgentDevice { agent: &alice, device: "a" }.send(&test, &carol, "one").await.unwrap();
    assert_eq!(texts(&connected.everything(&test).await), ["one"]);
    assert_eq!(next(&test, &carol).await, json!({ "device": false }));
}

#[tokio::test]
async fn beside_other_devices_the_webhook_leaves_with_its_inbox() {
    let (test, alice, carol) = two().await;
    let from = AgentDevice { agent: &alice, device: "a" };
    put(&test, &carol).await;
    from.send(&test, &carol, "one").await.unwrap();
    for _ in 0..2 {
        test.inside("message.webhook.remove_device", json!({ "aid": carol.aid })).await;
    }
    assert_eq!(next(&test, &carol).await, json!({ "device": false }));
    from.send(&test, &carol, "two").await.unwrap();
    put(&test, &carol).await;
    assert_eq!(next(&test, &carol).await, json!({ "device": true }), "it begins again with what comes");
    from.send(&test, &carol, "three").await.unwrap();
    assert_eq!(next(&test, &carol).await["next"]["message_id"], "three");
    assert_eq!(
        texts(&AgentDevice { agent: &carol, device: "c" }.everything(&test).await),
        ["one", "two", "three"]
    );
}

#[tokio::test]
async fn over_http_an_agent_with_a_webhook_reads_and_sends_as_its_device() {
    let (test, alice, carol) = two().await;
    let by_token = async |method: &str, params: Value| test.call_as(alice.by_token(), method, params).await;
    let keys = json!({ "prekey_id": "k", "public_key": "AAAA", "signature": "AAAA" });
    let device_methods = [
        ("message.pull", json!({})),
        ("message.ack", json!({ "seq": 0 })),
        ("message.v2.pull", json!({})),
        ("message.v2.ack", json!({ "up_to_seq": 0 })),
        ("message.v2.put_peer_pk", spk(&test, &alice)),
        ("message.e2ee.put_prekey", keys),
    ];
    for (method, params) in &device_methods {
        let refused = by_token(method, params.clone()).await.unwrap_err();
        assert_eq!(refused.code(), -32600, "{method}");
        assert!(refused.to_string().contains("connection mode webhook"), "{refused}");
    }
    let envelope = json!({ "to": carol.aid, "payload": sealed(&test, &alice, &carol, "c") });
    assert!(by_token("message.send", envelope.clone()).await.is_err(), "the sender is no device webhook");

    put(&test, &alice).await;
    for (method, params) in &device_methods {
        by_token(method, params.clone()).await.unwrap_or_else(|error| panic!("{method}: {error}"));
    }
    let to_carol = json!({ "peer_aid": carol.aid });
    let targets = by_token("message.v2.bootstrap", to_carol).await.unwrap();
    assert_eq!(targets["self_devices"][0]["device_id"], "webhook", "it has keys now");
    let carols = AgentDevice { agent: &carol, device: "c" };
    carols.call(&test, "message.v2.put_peer_pk", spk(&test, &carol)).await.unwrap();
    by_token("message.send", envelope).await.unwrap();
    let page = carols.call(&test, "message.v2.pull", json!({})).await.unwrap();
    assert_eq!(page["messages"][0]["sender_device_id"], "webhook");

    carols.send(&test, &alice, "hello").await.unwrap();
    let page = by_token("message.pull", json!({})).await.unwrap();
    assert_eq!(
        (texts(page["messages"].as_array().unwrap()), page["latest_seq"].as_i64()),
        (vec!["hello"], Some(1))
    );
    assert_eq!(page["messages"][0]["device_id"], "webhook");
    assert_eq!(by_token("message.ack", json!({ "seq": 1 })).await.unwrap()["ack_seq"], 1);
    assert_eq!(next(&test, &alice).await, json!({ "device": true }), "both move one cursor");
    for method in ["message.peers", "message.read_state", "message.history"] {
        assert_eq!(code(by_token(method, json!({})).await), -32600, "{method} needs a connection as before");
    }
}

#[tokio::test]
async fn ciphertext_is_passed_on_as_it_is_pulled() {
    let (test, alice, carol) = two().await;
    put(&test, &carol).await;
    put(&test, &alice).await;
    test.call_as(carol.by_token(), "message.v2.put_peer_pk", spk(&test, &carol)).await.unwrap();
    let envelope = json!({ "to": carol.aid, "payload": sealed(&test, &alice, &carol, "webhook") });
    test.call_as(alice.by_token(), "message.send", envelope).await.unwrap();
    let found = next(&test, &carol).await["next"].take();
    let mut pulled =
        test.call_as(carol.by_token(), "message.v2.pull", json!({})).await.unwrap()["messages"][0].take();
    pulled["encrypted"] = json!(true);
    assert_eq!(found["message"], pulled);
    assert_eq!((&found["type"], &found["message_id"]), (&json!("message.new"), &json!("m-1")));
}

#[tokio::test]
async fn only_the_service_of_agents_has_these_methods() {
    let (test, alice, _) = two().await;
    for method in ["put_device", "remove_device", "next"] {
        let method = format!("message.webhook.{method}");
        for caller in [alice.caller(), alice.by_token(), Caller::service("search")] {
            let refused = test.call_as(caller, &method, json!({ "aid": alice.aid })).await;
            assert_eq!(code(refused), -32601, "{method}");
        }
        test.call_as(Caller::service("agent"), &method, json!({ "aid": alice.aid })).await.unwrap();
    }
}
