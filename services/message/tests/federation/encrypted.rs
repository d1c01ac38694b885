//! Messages that are encrypted end to end between domains: the keys are fetched from the peer, the envelope is sent as it is.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use testing::spki;

/// A signed key for a device.
async fn put_key(domain: &Domain, who: (&TestAgent, &str)) -> Value {
    let (agent, key) = (who.0, Key::generate(Curve::P256));
    let der = key.public().spki_der().to_vec();
    let id = v2::put_peer_pk::key_id(&der);
    let text = [der.as_slice(), id.as_bytes(), b"100"].concat();
    let spk = json!({
        "peer_aid": agent.aid, "key_source": "peer_device_prekey", "spk_id": id, "spk_pk": spki(&key),
        "spk_signature": STANDARD.encode(agent.key.sign_fixed(&text)), "spk_timestamp": 100,
    });
    domain.call(who, "message.v2.put_peer_pk", spk.clone()).await.unwrap();
    spk["spk_id"].clone()
}

fn row(aid: &str, device: &str, role: &str) -> [String; 8] {
    let fixed = |bytes: usize| STANDARD.encode(vec![7; bytes]);
    let (fp, spk) = ("sha256:0011223344556677", "sha256:8899aabbccddeeff");
    [aid, device, role, "peer_device_prekey", fp, spk, &fixed(12), &fixed(48)].map(str::to_owned)
}

/// From Alice's device `a` to Dave's device and to Alice's other one.
fn sealed(alice: &TestAgent, dave: &TestAgent, now: i64) -> Value {
    let rows = [row(&alice.aid, "tablet", "self_sync"), row(&dave.aid, "d", "peer")];
    let payload = json!({
        "type": "e2ee.p2p_encrypted", "version": "v2", "suite": "P256_HKDF_SHA256_AES_256_GCM", "t_send": now,
        "ciphertext": "AAAA", "recipients_digest": envelope::digest(&rows), "recipients": rows,
        "aad": { "from": alice.aid, "from_device": "a", "to": dave.aid, "message_id": "m-1" },
    });
    json!({ "to": dave.aid, "payload": payload })
}

#[tokio::test]
async fn keys_come_from_both_domains_and_the_peer_decides_how_to_wrap() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let (theirs, ours) = (put_key(&there, (&dave, "d")).await, put_key(&here, (&alice, "a")).await);
    let ask = json!({ "peer_aid": dave.aid });
    let got = here.call((&alice, "a"), "message.v2.bootstrap", ask).await.unwrap();
    assert_eq!(
        (&got["peer_devices"][0]["spk_id"], &got["peer_devices"][0]["aid"]),
        (&theirs, &json!(dave.aid))
    );
    assert_eq!(got["peer_devices"][0]["ik_pk"], spki(&dave.key));
    assert_eq!(
        (&got["self_devices"][0]["spk_id"], &got["self_devices"][0]["aid"]),
        (&ours, &json!(alice.aid))
    );
    assert_eq!((&got["audit_recipients"], &got["e2ee_wrap_policy"]["scope"]), (&json!([]), &json!("device")));

    let can = json!({ "version": "v2.1", "protocols": ["1DH", "3DH"], "scopes": ["aid", "device"] });
    let ask = json!({ "peer_aid": dave.aid, "e2ee_wrap_capabilities": can });
    let got = here.call((&alice, "a"), "message.v2.bootstrap", ask.clone()).await.unwrap();
    for devices in ["peer_devices", "self_devices"] {
        assert_eq!(got[devices][0]["key_source"], "aid_master", "{devices}");
    }
    let asked = here.gateway.forwards.lock().last().unwrap().params.get().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&asked).unwrap(), ask, "the peer gets all of it");
}

#[tokio::test]
async fn an_agent_of_another_domain_gets_no_devices_of_its_own() {
    let there = Domain::open("aid.net").await;
    let dave = there.agent("dave", "d").await;
    put_key(&there, (&dave, "d")).await;
    let ask = json!({ "peer_aid": dave.aid });
    let got = there.call_as(foreign("alice.aid.com", "a"), "message.v2.bootstrap", ask).await.unwrap();
    assert_eq!((got["peer_devices"].as_array().unwrap().len(), &got["self_devices"]), (1, &json!([])));
}

#[tokio::test]
async fn an_envelope_is_sent_as_it_is_and_each_domain_stores_the_rows_of_its_own() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    here.join(&alice, "tablet").await;
    let params = sealed(&alice, &dave, here.world.clock.now_ms());
    for status in ["sent", "duplicate"] {
        let sent = here.call((&alice, "a"), "message.send", params.clone()).await.unwrap();
        assert_eq!((&sent["status"], &sent["message_id"]), (&json!(status), &json!("m-1")));
    }
    let crossed: Value = serde_json::from_str(here.gateway.forwards.lock()[0].params.get()).unwrap();
    assert_eq!(crossed["payload"].to_string(), params["payload"].to_string());
    for (domain, who, role) in [(&there, (&dave, "d"), "peer"), (&here, (&alice, "tablet"), "self_sync")] {
        let page = domain.call(who, "message.v2.pull", json!({})).await.unwrap();
        let rows = page["messages"].as_array().unwrap();
        assert_eq!(rows.len(), 1, "{role}");
        let envelope: Value = serde_json::from_str(rows[0]["envelope_json"].as_str().unwrap()).unwrap();
        assert_eq!((&envelope["recipient"]["role"], &envelope["ciphertext"]), (&json!(role), &json!("AAAA")));
    }
}

#[tokio::test]
async fn a_row_for_an_unknown_device_of_the_sender_is_refused_before_it_is_sent() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let params = sealed(&alice, &dave, here.world.clock.now_ms());
    let refused = here.call((&alice, "a"), "message.send", params).await;
    assert_eq!(code(refused), codes::message::DEVICE_NOT_FOUND.code);
    assert!(here.gateway.methods_asked().is_empty());
    assert!(there.rows((&dave, "d")).await.is_empty());
}
