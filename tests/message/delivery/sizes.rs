//! How large a message may be, so that clients of every age can read it and whatever is behind it.

use serde_json::{Value, json};

use crate::message::{ask, events_until_now, message, named, pull, received, refusal, rows, send, two};
use crate::support::TestServer;
use crate::support::agent::text;
use crate::support::envelope::{put_key, sealed};

/// The oldest clients close a connection that sends them more at once.
const SMALLEST_FRAME: usize = 1 << 20;
const ROW: usize = 1_000_000;

fn with(mut params: Value, name: &str, value: Value) -> Value {
    params[name] = value;
    params
}

/// A text that, as a payload, has so many bytes.
fn payload(bytes: usize) -> Value {
    json!({ "text": "x".repeat(bytes - r#"{"text":""}"#.len()) })
}

#[tokio::test]
async fn headers_and_context_have_at_most_64_kib_together() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let of = |bytes: usize| {
        let params = with(message(bob.aid(), "with headers"), "headers", payload(1000));
        with(with(params, "protected_headers", payload(1000)), "context", payload(bytes - 2000))
    };
    for params in
        [of(65_537), with(of(65_537), "ttl", json!(60)), with(of(65_537), "delivery_mode", json!("queue"))]
    {
        let error = refusal(&alice, "message.send", params).await;
        assert_eq!(error["code"], -32602, "{}", error["message"]);
        let sentence = text(&error["message"]);
        assert!(sentence.contains("at most 65536 bytes") && sentence.contains("have 65537"), "{sentence}");
    }
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new());
    assert_eq!(send(&alice, of(65_536)).await["seq"], 2, "only the mark was before it");
    assert_eq!(received(&bob).await["context"], payload(63_536));
}

/// Each way in which a message is stored.
#[tokio::test]
async fn a_row_has_at_most_a_million_bytes() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    let of = |bytes: usize| with(named(bob.aid(), "m-1", ""), "payload", payload(bytes));
    let copy =
        json!({ "device_id": "laptop", "envelope": with(payload(ROW), "type", json!("e2ee.encrypted")) });
    let split = json!({ "type": "e2ee.multi_device", "recipient_copies": [copy], "self_copies": [] });
    // Each of these is written with four characters: the envelope is a text in the row.
    let mut escaped = sealed(&alice, bob.aid(), "m-1");
    escaped["payload"]["test_hint"] = json!("\"".repeat(300_000));
    for (params, limit) in [
        (of((1 << 20) + 1), "1048576"),
        (of(1 << 20), "1000000"),
        (of(ROW), "1000000"),
        (with(of(ROW), "ttl", json!(60)), "1000000"),
        (with(of(ROW), "delivery_mode", json!("queue")), "1000000"),
        (with(of(ROW), "payload", split), "1000000"),
        (escaped, "1000000"),
    ] {
        let error = refusal(&alice, "message.send", params).await;
        assert_eq!(error["code"], -32602, "{}", error["message"]);
        assert!(text(&error["message"]).contains(&format!("at most {limit} bytes")), "{}", error["message"]);
    }
    let thought =
        json!({ "to": bob.aid(), "context": { "type": "run", "id": "r-1" }, "payload": payload(ROW) });
    let error = refusal(&alice, "message.thought.put", thought).await;
    assert_eq!(error["code"], -32602, "{}", error["message"]);
    assert_eq!(events_until_now(&alice, &bob).await, Vec::<Value>::new());
    assert_eq!(pull(&bob).await["count"], 1, "only the mark");

    // The sentence says how much is too much.
    let error = text(&refusal(&alice, "message.send", of(ROW)).await["message"]);
    let has: usize = error.rsplit("and has ").next().and_then(|has| has.parse().ok()).expect("a number");
    let most = ROW - (has - ROW);
    refusal(&alice, "message.send", of(most + 1)).await;
    assert_eq!(send(&alice, of(most)).await["seq"], 2);
    assert!(bob.next_text().await.len() < SMALLEST_FRAME, "the event fits into a frame");
    for method in ["message.pull", "message.v2.pull"] {
        let page = ask(&bob, method, json!({ "after_seq": 1 })).await;
        let row = &rows(&page)[0];
        assert_eq!(row["message_id"], "m-1", "{method}");
        assert!(row.to_string().len() <= ROW, "{} bytes", row.to_string().len());
        assert!(page.to_string().len() < SMALLEST_FRAME, "the page fits into a frame");
    }
}
