//! Keys for encrypted messages: prekeys of the first generation, signed keys and the wrap policy of the second.

use serde_json::{Value, json};

use crate::message::{ask, refusal, two};
use crate::support::TestServer;
use crate::support::agent::{ConnectedAgent, public_key, random_hex};
use crate::support::envelope::put_key;

fn prekey(agent: &ConnectedAgent, id: &str) -> Value {
    let key = public_key(&certs::Key::generate(certs::Curve::P256));
    let created_at = 1_794_701_761_845_i64;
    let signature = agent.identity.sign(&format!("{id}|{key}|{created_at}"));
    json!({ "prekey_id": id, "public_key": key, "signature": signature, "created_at": created_at })
}

async fn prekeys(asker: &ConnectedAgent, of: &str) -> Value {
    ask(asker, "message.e2ee.get_prekey", json!({ "aid": of })).await
}

#[tokio::test]
async fn prekeys_come_back_as_they_were_given_and_the_newest_counts() {
    let mut server = TestServer::start().await;
    let (alice, bob) = two(&server).await;
    let none = prekeys(&alice, bob.aid()).await;
    assert_eq!((&none["found"], &none["device_prekeys"]), (&json!(false), &json!([])));
    for id in ["p-1", "p-2"] {
        let mut key = prekey(&bob, id);
        ask(&bob, "message.e2ee.put_prekey", key.clone()).await;
        key["device_id"] = json!("laptop");
        for _ in 0..2 {
            let found = prekeys(&alice, bob.aid()).await;
            assert_eq!(found["found"], true, "reading does not use it up");
            assert_eq!(found["device_prekeys"].as_array().unwrap().len(), 1);
            for (name, value) in key.as_object().unwrap() {
                assert_eq!(found["device_prekeys"][0][name], *value, "{name}");
                assert!(name == "device_id" || found["prekey"][name] == *value, "{name}");
            }
        }
    }
    let phone = server.connect_device(&bob, "phone", "default").await;
    ask(&phone, "message.e2ee.put_prekey", prekey(&phone, "p-3")).await;
    assert_eq!(
        prekeys(&bob, bob.aid()).await["device_prekeys"].as_array().unwrap().len(),
        2,
        "one for each device"
    );
    server.restart().await;
    let alice = server.reconnect(&alice).await;
    assert_eq!(prekeys(&alice, bob.aid()).await["device_prekeys"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_prekey_is_for_the_device_that_puts_it() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut key = prekey(&bob, "p-1");
    key["device_id"] = json!("phone");
    assert_eq!(refusal(&bob, "message.e2ee.put_prekey", key).await["code"], -32602);
    let mut old = prekey(&bob, "p-2");
    old.as_object_mut().unwrap().remove("created_at");
    ask(&bob, "message.e2ee.put_prekey", old).await;
    let found = prekeys(&alice, bob.aid()).await;
    assert!(found["prekey"].get("created_at").is_none_or(Value::is_null), "nothing is made up: {found}");
}

#[tokio::test]
async fn a_replay_is_noticed_once_for_each_receiver() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    let seen = json!({ "sender_aid": alice.aid(), "message_id": "m-1" });
    let check = |agent| ask(agent, "message.e2ee.check_replay_guard", seen.clone());
    let record = |agent| ask(agent, "message.e2ee.record_replay_guard", seen.clone());
    assert_eq!(check(&bob).await["duplicate"], false);
    assert_eq!(record(&bob).await["duplicate"], false);
    assert_eq!(record(&bob).await["duplicate"], true);
    assert_eq!(check(&bob).await["duplicate"], true);
    assert_eq!(record(&phone).await["duplicate"], false, "another device has not seen it");
    assert_eq!(record(&alice).await["duplicate"], false);
}

#[tokio::test]
async fn whoever_wants_to_write_in_secret_learns_the_keys_of_every_device() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    let bare = ask(&alice, "message.v2.bootstrap", json!({ "peer_aid": bob.aid() })).await;
    assert_eq!(bare["peer_devices"], json!([]), "devices without a key cannot be written to");
    let keys = [put_key(&bob).await, put_key(&phone).await];
    put_key(&alice).await;

    let each = ask(&alice, "message.v2.bootstrap", json!({ "peer_aid": bob.aid() })).await;
    let policy = &each["e2ee_wrap_policy"];
    assert_eq!(
        (&policy["protocol"], &policy["scope"], &policy["per_device_wrap"]),
        (&json!("3DH"), &json!("device"), &json!(true))
    );
    let devices = each["peer_devices"].as_array().unwrap();
    assert_eq!((devices.len(), &each["audit_recipients"]), (2, &json!([])));
    for (device, key) in devices.iter().zip(&keys) {
        for name in ["spk_id", "spk_pk", "spk_signature", "spk_timestamp"] {
            assert_eq!(device[name], key[name], "{name}");
        }
        assert_eq!(
            (&device["aid"], &device["key_source"]),
            (&json!(bob.aid()), &json!("peer_device_prekey"))
        );
        let known = device.get("ik_pk").is_none_or(|ik| *ik == public_key(&bob.identity.key));
        assert!(known, "the key of the certificate: {device}");
    }
    assert_eq!(each["self_devices"][0]["device_id"], "laptop");

    let can = json!({ "version": "v2.1", "protocols": ["1DH", "3DH"], "scopes": ["aid", "device"], "per_aid_wrap": true, "per_device_wrap": true });
    let whole =
        ask(&alice, "message.v2.bootstrap", json!({ "peer_aid": bob.aid(), "e2ee_wrap_capabilities": can }))
            .await;
    let policy = &whole["e2ee_wrap_policy"];
    assert_eq!(
        (&policy["protocol"], &policy["scope"], &policy["per_aid_wrap"]),
        (&json!("1DH"), &json!("aid"), &json!(true))
    );
    assert!(
        whole["peer_devices"].as_array().unwrap().iter().all(|device| device.get("spk_pk").is_none()),
        "{whole}"
    );
}

#[tokio::test]
async fn nobody_puts_a_key_for_somebody_else() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut key = put_key(&alice).await;
    key["peer_aid"] = json!(bob.aid());
    let error = refusal(&alice, "message.v2.put_peer_pk", key.clone()).await;
    assert_eq!(error["code"], -32004, "{error}");
    key["peer_aid"] = json!(alice.aid());
    key["spk_id"] = json!(format!("sha256:{}", random_hex(8)));
    assert_eq!(refusal(&alice, "message.v2.put_peer_pk", key).await["code"], -32602, "an id of another key");
    let nobody = ask(&alice, "message.v2.bootstrap", json!({ "peer_aid": "nobody.agents.localhost" })).await;
    assert_eq!(nobody["peer_devices"], json!([]));
}
