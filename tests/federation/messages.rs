//! Agents of two domains write to each other, and each sees what it would see within its own domain.

use serde_json::{Value, json};

use super::{named, next, say, words};
use crate::support::agent::ConnectedAgent;
use crate::support::domain::DomainPair;
use crate::support::envelope::{envelope, opened, put_key, row_for};
use crate::support::{until, within};

async fn two(pair: &DomainPair) -> (ConnectedAgent, ConnectedAgent) {
    (pair.near.agent("alice").await, pair.far.agent("carol").await)
}

#[tokio::test]
async fn a_message_and_its_acknowledgement_cross_in_both_directions() {
    let pair = DomainPair::shared().await;
    let (alice, carol) = two(&pair).await;
    for (from, to) in [(&alice, &carol), (&carol, &alice)] {
        let sent = say(from, to.aid(), "hello over there").await;
        let there = to.aid().split_once('.').expect("an AID has a domain").1;
        assert_eq!((&sent["cross_domain"], &sent["target_issuer"]), (&json!(true), &json!(there)), "{sent}");
        assert_eq!(sent["seq"], 1, "the receiving domain assigns the seq: {sent}");

        let received = next(to, "event/message.received").await;
        assert_eq!((&received["from"], &received["seq"]), (&json!(from.aid()), &json!(1)), "{received}");
        assert_eq!(received["payload"]["text"], "hello over there");
        assert_eq!(words(to).await, ["hello over there"]);

        to.call("message.ack", &json!({ "seq": 1 })).await;
        let ack = next(from, "event/message.ack").await;
        assert_eq!((&ack["to"], &ack["ack_seq"]), (&json!(to.aid()), &json!(1)), "{ack}");
    }
}

#[tokio::test]
async fn a_traced_message_shows_its_relay_and_the_other_domain_begins_its_spans_anew() {
    const ID: &str = "feedfacefeedfacefeedfacefeedface";
    let pair = DomainPair::shared().await;
    let (alice, carol) = two(&pair).await;
    let mut params = named(carol.aid(), "m-1", "followed");
    let own = json!({ "node": "sdk", "action": "send", "ts": 1 });
    params["_trace"] = json!({ "trace_id": ID, "mode": "diag", "spans": [own] });
    let answer = alice.whole_answer("message.send", &params).await;
    let took = |trace: &Value, node: &str, action: &str| {
        let spans = trace["spans"].as_array().expect("a trace has spans");
        let found = spans.iter().find(|span| span["node"] == node && span["action"] == action);
        let ms = found.and_then(|span| span["ms"].as_f64());
        ms.unwrap_or_else(|| panic!("no {node}.{action} with its time: {trace}"))
    };
    let trace = &answer["_trace"];
    let relay = took(trace, "relay", "forward");
    assert!(relay > 0.0 && relay <= took(trace, "message", "relay_out"), "{trace}");
    assert_eq!(trace["spans"][0], own, "{trace}");

    let event = next(&carol, "event/message.received").await;
    let there = &event["_trace"];
    assert_eq!((&there["trace_id"], &there["mode"]), (&json!(ID), &json!("diag")), "{event}");
    let spans = there["spans"].as_array().expect("a trace has spans");
    assert!(spans.iter().all(|span| span["node"] != "sdk" && span["node"] != "relay"), "{there}");
    took(there, "gateway", "admit");
    assert!(took(there, "store", "commit") <= took(there, "message", "relay_out"), "{there}");
    assert!(took(there, "message", "relay_out") > 0.0, "{there}");
}

#[tokio::test]
async fn the_same_id_is_the_same_message_across_domains() {
    let pair = DomainPair::shared().await;
    let (alice, carol) = two(&pair).await;
    let first = alice.call("message.send", &named(carol.aid(), "m-1", "once")).await;
    let again = alice.call("message.send", &named(carol.aid(), "m-1", "once")).await;
    assert_eq!((&again["seq"], &again["status"]), (&first["seq"], &json!("duplicate")), "{again}");
    assert_eq!(words(&carol).await, ["once"]);
}

#[tokio::test]
async fn messages_of_one_sender_keep_their_order() {
    let pair = DomainPair::with("limits.calls_per_second = 100000", "").await;
    let (alice, carol) = two(&pair).await;
    let messages: Vec<Value> =
        (0..150).map(|n| named(carol.aid(), &format!("m-{n}"), &n.to_string())).collect();
    for outcome in alice.call_many("message.send", &messages).await {
        outcome.unwrap_or_else(|error| panic!("refused: {error}"));
    }
    let expected: Vec<String> = (0..150).map(|n| n.to_string()).collect();
    assert_eq!(words(&carol).await, expected);
}

#[tokio::test]
async fn who_is_online_is_asked_where_they_live_and_a_dead_domain_has_nobody() {
    let pair = DomainPair::start().await;
    let (alice, carol) = two(&pair).await;
    let away = pair.far.register("dave").await;
    let asked = [alice.aid(), carol.aid(), &away.aid, "erin.nowhere.invalid"];
    let online = alice.call("message.query_online", &json!({ "aids": asked })).await;
    let expected = json!({ (asked[0]): true, (asked[1]): true, (asked[2]): false, (asked[3]): false });
    assert_eq!(online["online"], expected);

    let mut pair = pair;
    pair.far.kill();
    let online = alice.call("message.query_online", &json!({ "aids": asked })).await;
    assert_eq!(online["online"][carol.aid()], false, "{online}");
    assert_eq!(online["online"][alice.aid()], true, "{online}");
}

#[tokio::test]
async fn whoever_was_away_catches_up() {
    let pair = DomainPair::start().await;
    let (alice, carol) = two(&pair).await;
    carol.close().await;
    pair.far.at_most_sessions(0).await;
    let dave = pair.far.register("dave").await;
    for n in 1..=3 {
        say(&alice, carol.aid(), &n.to_string()).await;
        say(&alice, &dave.aid, &n.to_string()).await;
    }
    let carol = pair.far.reconnect(&carol).await;
    assert_eq!(words(&carol).await, ["1", "2", "3"]);
    let dave = pair.far.connect(&dave, |_| ()).await;
    assert_eq!(words(&dave).await, ["1", "2", "3"], "who never connected is answered as within a domain");
}

#[tokio::test]
async fn a_notification_crosses_to_its_device_and_says_who_sent_it() {
    let pair = DomainPair::shared().await;
    let (alice, laptop) = two(&pair).await;
    let phone = pair.far.connect_device(&laptop, "phone", "default").await;
    let notification = |target: Value, n: u32| {
        let deliver = json!({ "method": "event/app.typing", "params": { "n": n, "_notify": { "from_aid": "mallory.far.test" } } });
        json!({ "target": target, "deliver": deliver })
    };
    let all = json!({ "type": "aid", "aid": laptop.aid() });
    let one = json!({ "type": "aid", "aid": laptop.aid(), "device_id": "phone" });
    alice.notify("notification/route", &notification(one, 1)).await;
    alice.notify("notification/route", &notification(all, 2)).await;
    for (device, expected) in [(&phone, vec![1, 2]), (&laptop, vec![2])] {
        for n in expected {
            let event = within("a notification", next(device, "event/app.typing")).await;
            assert_eq!(
                (&event["n"], &event["_notify"]["from_aid"]),
                (&json!(n), &json!(alice.aid())),
                "{event}"
            );
        }
    }
    assert_eq!(words(&laptop).await, Vec::<String>::new(), "nothing is stored");
}

#[tokio::test]
async fn keys_are_fetched_across_and_an_envelope_made_with_them_is_opened_there() {
    let pair = DomainPair::shared().await;
    let (alice, carol) = two(&pair).await;
    let key = put_key(&carol).await;
    let keys = alice.call("message.v2.bootstrap", &json!({ "peer_aid": carol.aid() })).await;
    let device = &keys["peer_devices"][0];
    assert_eq!((&device["spk_id"], &device["spk_pk"]), (&key["spk_id"], &key["spk_pk"]), "{keys}");

    let device = device["device_id"].as_str().unwrap_or(carol.device());
    let sealed = envelope(&alice, carol.aid(), "m-1", &[row_for(carol.aid(), device, "peer")]);
    let params = json!({ "to": carol.aid(), "message_id": "m-1", "payload": sealed });
    let sent = alice.call("message.send", &params).await;
    assert_eq!(sent["cross_domain"], true, "{sent}");
    next(&carol, "event/peer.v2.message_received").await;
    let page = carol.call("message.v2.pull", &json!({ "after_seq": 0, "limit": 50 })).await;
    let read = opened(&page["messages"][0]["envelope_json"]);
    assert_eq!(read["ciphertext"], sealed["ciphertext"]);
}

#[tokio::test]
async fn what_was_recalled_is_gone_in_the_other_domain() {
    let pair = DomainPair::shared().await;
    let (alice, carol) = two(&pair).await;
    let dave = pair.near.agent("dave").await;
    alice.call("message.send", &named(carol.aid(), "m-1", "secret")).await;
    let of_dave = dave.call("message.recall", &json!({ "message_ids": ["m-1"] })).await;
    assert_eq!(of_dave["recalled"], 0, "{of_dave}");
    let recalled = alice.call("message.recall", &json!({ "message_ids": ["m-1"] })).await;
    assert_eq!(recalled["recalled"], 1, "{recalled}");
    let event = next(&carol, "event/message.recalled").await;
    assert_eq!((&event["from"], &event["message_ids"]), (&json!(alice.aid()), &json!(["m-1"])));
    assert!(!words(&carol).await.contains(&"secret".to_owned()));
}

#[tokio::test]
async fn a_thought_is_read_on_both_sides() {
    let pair = DomainPair::shared().await;
    let (alice, carol) = two(&pair).await;
    let context = json!({ "type": "run", "id": "r-1" });
    let payload = json!({ "type": "e2ee.p2p_encrypted", "n": 7 });
    let put = json!({ "to": carol.aid(), "context": context, "payload": payload, "encrypted": true, "thought_id": "mt-1" });
    let put = alice.call("message.thought.put", &put).await;
    assert_eq!(put["cross_domain"], true, "{put}");
    let here = json!({ "sender_aid": alice.aid(), "context": context });
    let got = carol.call("message.thought.get", &here).await;
    assert_eq!(got["thoughts"][0]["payload"]["n"], 7, "{got}");
    let there = json!({ "sender_aid": alice.aid(), "peer_aid": carol.aid(), "context": context });
    let got = alice.call("message.thought.get", &there).await;
    assert_eq!(got["thoughts"][0]["payload"]["n"], 7, "{got}");
}

#[tokio::test]
async fn a_refusal_of_the_other_domain_reaches_the_caller_unchanged() {
    let pair = DomainPair::shared().await;
    let (alice, carol) = two(&pair).await;
    let local =
        carol.call_error("message.send", &named(&format!("nobody1.{}", pair.far.issuer), "m", "x")).await;
    let relayed =
        alice.call_error("message.send", &named(&format!("nobody1.{}", pair.far.issuer), "m", "x")).await;
    assert_eq!(
        (&relayed["code"], &relayed["data"]["kind"]),
        (&local["code"], &local["data"]["kind"]),
        "{relayed}"
    );
    assert_eq!(
        (&relayed["data"]["federated"], &relayed["data"]["target_issuer"]),
        (&json!(true), &json!(pair.far.issuer))
    );
}

#[tokio::test]
async fn a_domain_that_cannot_be_reached_is_said_to_be_so_at_once() {
    let mut pair = DomainPair::start().await;
    let (alice, carol) = two(&pair).await;
    pair.far.kill();
    for to in [carol.aid(), "erin.nowhere.invalid"] {
        let error = alice.call_error("message.send", &named(to, "m-1", "hello")).await;
        // Nobody has the other one, and it is not trusted either.
        let retryable = to == carol.aid();
        let told = (&error["code"], &error["data"]["retryable"]);
        assert_eq!(told, (&json!(-32010), &json!(retryable)), "{error}");
        let phase = error["data"]["phase"].as_str().unwrap_or_default();
        // Where the gateway of a domain is, is remembered for a while; of a domain that nobody has it never is.
        let remembered = to == carol.aid() && phase == "connect";
        assert!(phase == "discover" || remembered, "{error}");
        let issuer = to.split_once('.').map(|(_, issuer)| issuer);
        assert_eq!(error["data"]["target_issuer"].as_str(), issuer, "{error}");
        assert!(error["data"]["reason"].is_string(), "{error}");
    }
    pair.far.start_again();
    let carol = pair.far.reconnect(&carol).await;
    let delivered =
        || async { alice.try_call("message.send", &named(carol.aid(), "m-2", "back")).await.ok() };
    until("the domain is back", delivered).await;
    assert_eq!(words(&carol).await, ["back"], "and what was refused was not kept");
}
