//! A payload arrives as it was written, byte for byte; the few members that the server adds, and where it may write.

use serde_json::{Value, json};

use crate::message::{ask, message, pull, received, rows, send, two, v2_pull};
use crate::support::TestServer;
use crate::support::agent::text;
use crate::support::envelope::{put_key, sealed};

/// Odd spacing, escapes, numbers in every writing, an order nobody would sort into.
const ODD: &str = r#"{ "z" : 1e-7 ,"a":1.0,"n":[ 0.10,-0,1E+3,9007199254740993 ],"s":"\u00e9é\/\\\n\ud83d\ude00","e":{ },"_x":null , "":"empty" }"#;

#[tokio::test]
async fn a_plain_payload_arrives_byte_for_byte() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let odd = ODD.replace("9007199254740993", "9007199254740991");
    let params = format!(r#"{{"to":"{}","payload":{odd}}}"#, bob.aid());
    alice.call_text("message.send", &params).await;
    let event = bob.next_text().await;
    assert!(event.contains(&odd), "the event says {event}");
    for method in ["message.pull", "message.v2.pull"] {
        let page = bob.call_text(method, r#"{"after_seq":0}"#).await;
        assert!(page.contains(&odd), "{method} says {page}");
    }
    let history = bob.call_text("message.history", r#"{"before_seq":10}"#).await;
    assert!(history.contains(&odd), "{history}");
}

#[tokio::test]
async fn a_string_is_a_payload_and_arrives_byte_for_byte() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let odd = r#""echo \u00e9é\/\\\n\ud83d\ude00 from_device""#;
    let params = format!(r#"{{"to":"{}","payload":{odd}}}"#, bob.aid());
    alice.call_text("message.send", &params).await;
    let event = bob.next_text().await;
    assert!(event.contains(odd), "the event says {event}");
    for method in ["message.pull", "message.v2.pull"] {
        let page = bob.call_text(method, r#"{"after_seq":0}"#).await;
        assert!(page.contains(odd), "{method} says {page}");
    }

    send(&alice, json!({ "to": bob.aid(), "payload": "plain words" })).await;
    assert_eq!(received(&bob).await["payload"], "plain words");
    assert_eq!(rows(&pull(&bob).await)[1]["payload"], "plain words");
    assert_eq!(rows(&v2_pull(&bob).await)[1]["legacy_v1"]["payload"], "plain words");
}

#[tokio::test]
async fn copies_of_the_first_generation_arrive_byte_for_byte() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let odd = ODD.replace("9007199254740993", "1").replacen('{', r#"{ "type":"e2ee.encrypted","#, 1);
    let params = format!(
        r#"{{"to":"{}","type":"e2ee.multi_device","encrypted":true,"message_id":"m-1","payload":{{"type":"e2ee.multi_device","logical_message_id":"m-1","recipient_copies":[ {{"device_id":"laptop", "envelope":{odd}}} ],"self_copies":[]}}}}"#,
        bob.aid()
    );
    alice.call_text("message.send", &params).await;
    let event = bob.next_text().await;
    assert!(event.contains(&odd), "the event says {event}");
    let page = bob.call_text("message.pull", "{}").await;
    assert!(page.contains(&odd), "{page}");
}

#[tokio::test]
async fn an_envelope_of_the_second_generation_keeps_every_value_as_it_was_written() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    let sealed = sealed(&alice, bob.aid(), "m-1").to_string();
    let odd = ODD.replace("9007199254740993", "1");
    let params =
        sealed.replacen(r#""test_hint":{"kept":true}"#, &format!(r#""test_hint":{odd},"float": 2.50 "#), 1);
    assert_ne!(params, sealed);
    alice.call_text("message.send", &params).await;
    let page = v2_pull(&bob).await;
    let envelope = text(&rows(&page)[0]["envelope_json"]);
    assert!(envelope.contains(&format!(r#""test_hint":{odd}"#)), "{envelope}");
    assert!(envelope.contains("2.50"), "{envelope}");
}

#[tokio::test]
async fn members_of_a_tool_call_reach_rows_and_events() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut params = message(bob.aid(), "call me");
    let carried = json!({
        "msg_subtype": "artifact_tool_call", "content_type": "artifact", "need_render": false,
        "protected_headers": { "a": 1 }, "headers": { "b": [2] }, "context": { "type": "run", "id": "r-1" }, "type": "note",
    });
    params.as_object_mut().unwrap().extend(carried.as_object().unwrap().clone());
    send(&alice, params).await;
    let (event, first, second) = (received(&bob).await, pull(&bob).await, v2_pull(&bob).await);
    for row in [&event, &rows(&first)[0], &rows(&second)[0]] {
        for (name, value) in carried.as_object().unwrap() {
            assert_eq!(row.get(name), Some(value), "{name} in {row}");
        }
    }
    send(&alice, message(bob.aid(), "plain")).await;
    let event = received(&bob).await;
    for name in carried.as_object().unwrap().keys() {
        assert!(event.get(name).is_none(), "{name} was not given: {event}");
    }
}

#[tokio::test]
async fn proximity_tells_where_a_message_was_sent_from() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let phone = server.connect_device(&bob, "phone", "default").await;
    put_key(&bob).await;
    send(&alice, message(bob.aid(), "near")).await;
    for (reader, same_device) in [(&bob, true), (&phone, false)] {
        let event = received(reader).await;
        let page = pull(reader).await;
        for row in [&event, &rows(&page)[0], &rows(&v2_pull(reader).await)[0]] {
            let near = json!({
                "same_device": same_device, "same_egress_ip": true, "same_network": true, "basis": "egress_ip",
                "asserted_by": "gateway",
            });
            assert_eq!(row["proximity"], near);
            for name in ["same_device", "same_egress_ip", "same_network"] {
                assert_eq!(row[name], near[name], "{name} stands at the top too");
            }
        }
    }
    send(&alice, sealed(&alice, bob.aid(), "m-1")).await;
    assert_eq!(
        crate::message::next(&bob, "event/peer.v2.message_received").await["proximity"]["same_device"],
        true
    );
    assert_eq!(rows(&v2_pull(&bob).await)[1]["same_egress_ip"], true);
}

fn lines(value: &Value) -> Vec<String> {
    text(value).lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn an_echo_is_answered_by_everybody_on_its_way() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let said = "Please ECHO this\n12:00:00.000 [AUN-SDK.send] x";
    send(&alice, json!({ "to": bob.aid(), "payload": { "type": "text", "text": said } })).await;
    let event = received(&bob).await;
    let stored = pull(&bob).await;
    for row in [&event, &rows(&stored)[0]] {
        let lines = lines(&row["payload"]["text"]);
        assert_eq!(lines[..2].join("\n"), said);
        assert_eq!(lines.len(), 4, "{lines:?}");
        for (line, node) in lines[2..].iter().zip(["[AUN-Gateway.route]", "[AUN-Message.relay]"]) {
            assert!(line.contains(node) && line.contains("conn_uptime="), "{line}");
            let clock: Vec<usize> = line[..12].split([':', '.']).map(str::len).collect();
            assert_eq!(clock, [2, 2, 2, 3], "HH:MM:SS.mmm: {line}");
            assert!(line.trim_end().ends_with('s') || line.contains("s "), "seconds: {line}");
        }
        assert_eq!(row["payload"]["type"], "text");
    }
}

#[tokio::test]
async fn what_is_no_echo_is_left_alone() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let long = format!("echo {}", "x".repeat(4096));
    for (payload, encrypted) in [
        (json!({ "text": "hello" }), false),
        (json!({ "text": "hello\necho on the second line" }), false),
        (json!({ "text": 7, "echo": "echo" }), false),
        (json!({ "text": long }), false),
        (json!({ "text": "echo" }), true),
        (json!({ "body": "echo" }), false),
    ] {
        let mut params = json!({ "to": bob.aid(), "payload": payload });
        if encrypted {
            params["encrypted"] = json!(true);
        }
        send(&alice, params).await;
        assert_eq!(received(&bob).await["payload"], payload);
    }
    assert_eq!(ask(&bob, "message.pull", json!({})).await["count"], 6);
}

/// fastaun 0.2.20 decrypts what has no flag, and hands on ciphertext that is flagged as not encrypted.
#[tokio::test]
async fn only_what_may_not_be_an_envelope_is_flagged_as_not_encrypted() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    for (payload, encrypted, flag) in [
        (r#"{"type":"text","text":"hello"}"#, false, json!(false)),
        (r#"{"text":"no type"}"#, false, json!(false)),
        (r#"{"type":7}"#, false, json!(false)),
        (
            r#"{"type":"text","text":"about \"e2ee.encrypted\"","about":{"type":"e2ee.encrypted"}}"#,
            false,
            json!(false),
        ),
        (r#"{"type":"xe2ee.encrypted"}"#, false, json!(false)),
        (r#"{"type":"text"}"#, true, json!(true)),
        (r#"{"type":"e2ee.encrypted","ciphertext":"x"}"#, true, json!(true)),
        (r#"{"type":"e2ee.encrypted","ciphertext":"x"}"#, false, Value::Null),
        (r#"{"ciphertext":"x","type":"e2ee.group_key_request"}"#, false, Value::Null),
        (r#"{"type":"e2ee.encrypted","version":1,"ciphertext":"x"}"#, false, Value::Null),
        (r#"{"type":"\u0065\u0032ee.encrypted"}"#, false, Value::Null),
        (r#"{"\u0074ype":"e2ee\u002eencrypted"}"#, false, Value::Null),
    ] {
        for ttl in [None, Some(60)] {
            let more = ttl.map_or(String::new(), |ttl| format!(r#","ttl":{ttl}"#));
            let params =
                format!(r#"{{"to":"{}","payload":{payload},"encrypted":{encrypted}{more}}}"#, bob.aid());
            alice.call_text("message.send", &params).await;
            let event = received(&bob).await;
            assert_eq!(event["encrypted"], flag, "{params}: {event}");
        }
    }
}
