//! The receiving side: what agents of other domains may do.

use super::*;
use futures_util::StreamExt as _;

#[tokio::test]
async fn an_agent_of_another_domain_may_call_federated_methods_and_no_others() {
    let there = Domain::open("aid.net").await;
    let dave = there.agent("dave", "d").await;
    let alice = foreign("alice.aid.com", "a");
    for method in proto_schemas::methods().iter().filter(|method| method.name.starts_with("message.")) {
        let answer = there.call_as(alice.clone(), method.name, json!({})).await;
        let closed = matches!(&answer, Err(error) if error.code() == codes::METHOD_NOT_FOUND.code);
        assert_eq!(closed, method.federation.is_none(), "{}: {answer:?}", method.name);
    }
    drop(dave);
}

#[tokio::test]
async fn nothing_is_passed_on_to_a_third_domain() {
    let (here, there) = domains().await;
    let caller = foreign("alice.aid.com", "a");
    let third = "zora.aid.org";
    let about = json!({ "type": "run", "id": "run-1" });
    for (method, params) in [
        ("message.send", json!({ "to": third, "payload": {} })),
        ("message.e2ee.get_prekey", json!({ "aid": third })),
        ("message.v2.bootstrap", json!({ "peer_aid": third })),
        ("message.thought.put", json!({ "to": third, "context": about, "payload": {} })),
        (
            "message.thought.get",
            json!({ "sender_aid": "alice.aid.com", "peer_aid": third, "context": about }),
        ),
    ] {
        let refused = there.call_as(caller.clone(), method, params).await.unwrap_err();
        assert_eq!(refused.code(), codes::FEDERATION_REFUSED.code, "{method}");
        assert_eq!(refused.data("reason"), Some(&json!("target_not_local")), "{method}");
    }
    let online =
        there.call_as(caller, "message.query_online", json!({ "aids": [third, "alice.aid.com"] })).await;
    assert_eq!(online.unwrap()["online"], json!({ third: false, "alice.aid.com": false }));
    assert!(there.gateway.methods_asked().is_empty());
    drop(here);
}

#[tokio::test]
async fn the_rest_of_a_ttl_is_not_made_longer() {
    let there = Domain::open("aid.net").await;
    let dave = there.agent("dave", "d").await;
    let params = json!({ "to": dave.aid, "payload": {}, "ttl": 0.25 });
    let sent = there.call_as(foreign("alice.aid.com", "a"), "message.send", params.clone()).await.unwrap();
    assert_eq!(sent["expires_at"].as_i64().unwrap() - sent["created_at"].as_i64().unwrap(), 250);
    let erin = there.agent("erin", "e").await;
    let sent = there.call((&erin, "e"), "message.send", params).await.unwrap();
    assert_eq!(sent["expires_at"].as_i64().unwrap() - sent["created_at"].as_i64().unwrap(), 1000);
}

#[tokio::test]
async fn a_device_of_the_same_name_in_another_domain_is_not_the_same_device() {
    let there = Domain::open("aid.net").await;
    let dave = there.agent("dave", "laptop").await;
    let params = json!({ "to": dave.aid, "payload": {} });
    there.call_as(foreign("alice.aid.com", "laptop"), "message.send", params.clone()).await.unwrap();
    let rows = there.rows((&dave, "laptop")).await;
    assert_ne!(rows[0]["same_device"], json!(true), "{}", rows[0]);
    there.call((&dave, "laptop"), "message.send", params).await.unwrap();
    let rows = there.rows((&dave, "laptop")).await;
    assert_eq!(rows[1]["same_device"], json!(true), "{}", rows[1]);
}

#[tokio::test]
async fn one_message_id_from_two_senders_is_two_messages() {
    let there = Domain::open("aid.net").await;
    let dave = there.agent("dave", "d").await;
    let params = json!({ "to": dave.aid, "payload": {}, "message_id": "m-1" });
    for (from, seq) in [("alice.aid.com", 1), ("alice.aid.org", 2), ("alice.aid.com", 1)] {
        let sent = there.call_as(foreign(from, "a"), "message.send", params.clone()).await.unwrap();
        assert_eq!(sent["seq"], seq, "{from}");
    }
}

#[tokio::test]
async fn what_is_begun_in_order_gets_its_seq_in_order_even_after_a_restart() {
    let there = Domain::open("aid.net").await;
    let dave = there.agent("dave", "d").await;
    let erin = there.register("erin").await; // Never connected.
    // A service that knows nobody yet, and a batch of an agent's messages, begun at once.
    let service = MessageService::open(&there.world, &there.settings).await.unwrap();
    for agent in [&dave, &erin] {
        let mut begun = futures_util::stream::FuturesOrdered::new();
        for n in 0..100 {
            let params = json!({ "to": agent.aid, "message_id": format!("m{n}"), "payload": {} });
            let params = serde_json::from_value(params).unwrap();
            begun.push_back(service.clone().send(foreign("alice.aid.com", "a"), params));
        }
        let sent: Vec<i64> = begun.map(|sent| sent.unwrap().seq.unwrap()).collect().await;
        assert_eq!(sent, (1..=100).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn what_another_domain_sends_has_the_same_limits() {
    let there = Domain::open("aid.net").await;
    let dave = there.agent("dave", "d").await;
    let (large, headers) = (json!({ "text": "x".repeat(1_000_000) }), json!({ "a": "x".repeat(64 << 10) }));
    for (params, expected) in [
        (json!({ "to": dave.aid, "payload": large }), codes::INVALID_PARAMS),
        (json!({ "to": dave.aid, "payload": large, "ttl": 60 }), codes::INVALID_PARAMS),
        (json!({ "to": dave.aid, "payload": {}, "headers": headers }), codes::INVALID_PARAMS),
        (json!({ "to": "auth.aid.net", "payload": {} }), codes::NOT_FOUND),
    ] {
        let refused = there.call_as(foreign("alice.aid.com", "a"), "message.send", params).await;
        assert_eq!(code(refused), expected.code);
    }
    assert!(there.rows((&dave, "d")).await.is_empty());
}
