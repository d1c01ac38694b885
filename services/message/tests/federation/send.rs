//! The sending side: what is asked of the peer, and what is stored here.

use super::*;

#[tokio::test]
async fn a_message_is_sent_and_the_peer_gives_it_its_seq() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    for n in 1..=3 {
        let params = json!({ "to": dave.aid, "payload": { "n": n }, "need_render": true });
        let sent = here.call((&alice, "a"), "message.send", params).await.unwrap();
        assert_eq!((&sent["seq"], &sent["status"]), (&json!(n), &json!("sent")));
        assert_eq!((&sent["cross_domain"], &sent["target_issuer"]), (&json!(true), &json!("aid.net")));
        assert!(!sent["message_id"].as_str().unwrap().is_empty());
    }
    let rows = there.rows((&dave, "d")).await;
    assert_eq!(seqs(&rows), [1, 2, 3]);
    assert_eq!((&rows[0]["from"], &rows[0]["sender_device_id"]), (&json!(alice.aid), &json!("a")));
    assert_eq!((&rows[2]["payload"], &rows[2]["need_render"]), (&json!({ "n": 3 }), &json!(true)));
    assert!(here.rows((&alice, "a")).await.is_empty(), "a plain message leaves nothing here");
}

#[tokio::test]
async fn sent_again_it_is_a_duplicate_with_the_same_id() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let params = json!({ "to": dave.aid, "payload": {}, "message_id": "m-1" });
    for status in ["sent", "duplicate", "duplicate"] {
        let sent = here.call((&alice, "a"), "message.send", params.clone()).await.unwrap();
        assert_eq!((&sent["status"], &sent["seq"]), (&json!(status), &json!(1)));
        assert_eq!(sent["message_id"], "m-1");
    }
    assert_eq!(there.rows((&dave, "d")).await.len(), 1);
}

#[tokio::test]
async fn invalid_messages_are_refused_before_they_are_sent_and_errors_of_the_peer_keep_their_code() {
    let (here, there) = domains().await;
    let alice = here.agent("alice", "a").await;
    for wrong in [json!(7), json!(["list"])] {
        let params = json!({ "to": "dave.aid.net", "payload": wrong });
        assert_eq!(code(here.call((&alice, "a"), "message.send", params).await), codes::INVALID_PARAMS.code);
    }
    assert!(here.gateway.methods_asked().is_empty());
    let params = json!({ "to": "nobody.aid.net", "payload": {} });
    let refused = here.call((&alice, "a"), "message.send", params.clone()).await.unwrap_err();
    assert_eq!(refused.code(), codes::NOT_FOUND.code);
    assert_eq!(refused.data("federated"), Some(&json!(true)));
    for broken in [codes::FEDERATION_UNREACHABLE, codes::FEDERATION_TIMEOUT, codes::FEDERATION_REFUSED] {
        *here.gateway.fails.lock() = Some(broken);
        assert_eq!(code(here.call((&alice, "a"), "message.send", params.clone()).await), broken.code);
    }
    drop(there);
}

#[tokio::test]
async fn a_ttl_is_sent_and_the_peer_keeps_the_message_in_memory() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let params = json!({ "to": dave.aid, "payload": {}, "ttl": 7200 });
    let sent = here.call((&alice, "a"), "message.send", params).await.unwrap();
    assert_eq!((&sent["status"], &sent["storage"]), (&json!("accepted"), &json!("volatile")));
    assert_eq!(sent["expires_at"].as_i64().unwrap() - sent["created_at"].as_i64().unwrap(), 3_600_000);
    let rows = there.rows((&dave, "d")).await;
    assert_eq!((rows.len(), &rows[0]["storage"]), (1, &json!("volatile")));
}

/// A message of the first generation with a copy for each device.
pub(super) fn split(to: &str, id: &str) -> Value {
    let copy = |device: &str, text: &str| json!({ "device_id": device, "envelope": { "type": "e2ee.encrypted", "text": text } });
    let payload = json!({
        "type": "e2ee.multi_device", "logical_message_id": id,
        "recipient_copies": [copy("d", "for dave")],
        "self_copies": [copy("tablet", "for alice's tablet")],
    });
    json!({ "to": to, "message_id": id, "type": "e2ee.multi_device", "encrypted": true, "payload": payload })
}

#[tokio::test]
async fn the_senders_other_devices_get_their_copies_here_once() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    here.join(&alice, "tablet").await;
    for _ in 0..2 {
        here.call((&alice, "a"), "message.send", split(&dave.aid, "m-1")).await.unwrap();
    }
    let rows = there.rows((&dave, "d")).await;
    assert_eq!((rows.len(), &rows[0]["payload"]["text"]), (1, &json!("for dave")));
    let rows = here.rows((&alice, "tablet")).await;
    assert_eq!((rows.len(), &rows[0]["payload"]["text"]), (1, &json!("for alice's tablet")));
    assert_eq!((&rows[0]["direction"], &rows[0]["to"]), (&json!("outbound_sync"), &json!(dave.aid)));
    assert!(here.rows((&alice, "a")).await.is_empty());
}

#[tokio::test]
async fn copies_that_were_not_stored_are_stored_when_it_is_sent_again() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    here.join(&alice, "tablet").await;
    // As after a crash between the peer's answer and our commit.
    let params = split(&dave.aid, "m-1");
    there.call_as(foreign(&alice.aid, "a"), "message.send", params.clone()).await.unwrap();
    assert!(here.rows((&alice, "tablet")).await.is_empty());
    let sent = here.call((&alice, "a"), "message.send", params).await.unwrap();
    assert_eq!(sent["status"], "duplicate");
    assert_eq!(here.rows((&alice, "tablet")).await.len(), 1);
    assert_eq!(there.rows((&dave, "d")).await.len(), 1);
}

#[tokio::test]
async fn what_the_peer_refuses_is_not_stored_for_the_senders_devices() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    here.join(&alice, "tablet").await;
    *here.gateway.peer.lock() = None;
    let unreachable = here.call((&alice, "a"), "message.send", split(&dave.aid, "m-1")).await;
    assert_eq!(code(unreachable), codes::FEDERATION_UNREACHABLE.code);
    assert!(here.rows((&alice, "tablet")).await.is_empty());
    drop(there);
}

#[tokio::test]
async fn online_is_asked_of_each_domain_and_a_domain_that_fails_is_offline() {
    let (here, there) = domains().await;
    let alice = here.agent("alice", "a").await;
    let ask = json!({ "aids": ["alice.aid.com", "dave.aid.net", "Erin.aid.net", "no aid"] });
    let all_false =
        json!({ "alice.aid.com": false, "dave.aid.net": false, "Erin.aid.net": false, "no aid": false });
    let online = here.call((&alice, "a"), "message.query_online", ask.clone()).await.unwrap();
    assert_eq!(online["online"], all_false);
    let forwards = here.gateway.forwards.lock().clone();
    assert_eq!(forwards.len(), 1, "one question for one domain");
    assert_eq!(forwards[0].timeout_ms, Some(3000));
    assert_eq!(forwards[0].params.get(), r#"{"aids":["dave.aid.net","erin.aid.net"]}"#);
    *here.gateway.fails.lock() = Some(codes::FEDERATION_UNREACHABLE);
    let online = here.call((&alice, "a"), "message.query_online", ask).await.unwrap();
    assert_eq!(online["online"], all_false);
    drop(there);
}

#[tokio::test]
async fn keys_of_the_first_generation_are_fetched_from_the_peer() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let ask = json!({ "aid": dave.aid });
    let none = here.call((&alice, "a"), "message.e2ee.get_prekey", ask.clone()).await.unwrap();
    assert_eq!(none, json!({ "found": false, "prekey": null, "device_prekeys": [] }));
    let prekey = json!({
        "prekey_id": "pk-1", "public_key": "a2V5", "signature": "c2ln", "device_id": "d", "created_at": 1_794_701_761_000_i64,
    });
    there.call((&dave, "d"), "message.e2ee.put_prekey", prekey).await.unwrap();
    let got = here.call((&alice, "a"), "message.e2ee.get_prekey", ask).await.unwrap();
    assert_eq!((&got["found"], &got["prekey"]["prekey_id"]), (&json!(true), &json!("pk-1")));
    assert_eq!(got["device_prekeys"][0]["device_id"], "d");
}

#[tokio::test]
async fn thoughts_are_kept_in_the_domain_of_their_recipient() {
    let (here, there) = domains().await;
    let (alice, dave) = (here.agent("alice", "a").await, there.agent("dave", "d").await);
    let about = json!({ "type": "run", "id": "run-1" });
    let params = json!({ "to": dave.aid, "context": about, "payload": { "n": 1 } });
    let put = here.call((&alice, "a"), "message.thought.put", params).await.unwrap();
    assert_eq!((&put["cross_domain"], &put["target_issuer"]), (&json!(true), &json!("aid.net")));
    assert_eq!((&put["stored_count"], &put["sender_aid"]), (&json!(1), &json!(alice.aid)));
    let asked = json!({ "sender_aid": alice.aid, "context": about });
    let got = there.call((&dave, "d"), "message.thought.get", asked).await.unwrap();
    assert_eq!((&got["found"], &got["thoughts"][0]["payload"]), (&json!(true), &json!({ "n": 1 })));
    let own = json!({ "sender_aid": alice.aid, "peer_aid": dave.aid, "context": about });
    let got = here.call((&alice, "a"), "message.thought.get", own).await.unwrap();
    assert_eq!(got["thoughts"][0]["thought_id"], put["thought_id"]);
    assert_eq!(here.gateway.methods_asked(), ["thought.put", "thought.get"]);
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_not_passed_on() {
    let here = Domain::open("aid.com").await;
    let alice = here.agent("alice", "a").await;
    let fine = json!({ "message_id": "theirs", "seq": 1, "timestamp": 2, "status": "sent" });
    let with = |name: &str, value: Value| {
        let mut answer = fine.clone();
        answer[name] = value;
        answer
    };
    let params = json!({ "to": "dave.aid.net", "payload": {}, "message_id": "m-1" });
    for bad in [
        json!(null),
        json!([]),
        json!({}),
        with("status", json!("whatever")),
        with("seq", json!(1_i64 << 53)),
        with("seq", json!(-1)),
        with("timestamp", json!("now")),
    ] {
        *here.gateway.answers.lock() = Some(bad.clone());
        let refused = here.call((&alice, "a"), "message.send", params.clone()).await.unwrap_err();
        assert_eq!(refused.code(), codes::FEDERATION_REFUSED.code, "{bad}");
        assert_eq!(refused.data("reason"), Some(&json!("unreadable_answer")), "{bad}");
    }
    *here.gateway.answers.lock() = Some(with("from", json!("mallory.aid.com")));
    let sent = here.call((&alice, "a"), "message.send", params).await.unwrap();
    assert_eq!(
        (&sent["message_id"], sent.get("from")),
        (&json!("m-1"), None),
        "members that are not the peer's to decide are left out"
    );
}

#[tokio::test]
async fn a_peer_answers_for_the_agent_it_was_asked_about_and_no_other() {
    let here = Domain::open("aid.com").await;
    let alice = here.agent("alice", "a").await;
    let device =
        |aid: &str| json!({ "aid": aid, "device_id": "d", "ik_pk": "a2V5", "key_source": "aid_master" });
    *here.gateway.answers.lock() = Some(json!({
        "peer_devices": [device("erin.aid.net"), device("dave.aid.net"), device("alice.aid.com")],
        "self_devices": [device("alice.aid.com")],
        "audit_recipients": [device("mallory.aid.net")],
        "e2ee_wrap_policy": { "per_aid_wrap": true },
    }));
    let ask = json!({ "peer_aid": "dave.aid.net" });
    let got = here.call((&alice, "a"), "message.v2.bootstrap", ask).await.unwrap();
    assert_eq!(got["peer_devices"], json!([device("dave.aid.net")]));
    assert_eq!((&got["self_devices"], &got["audit_recipients"]), (&json!([]), &json!([])));
}
