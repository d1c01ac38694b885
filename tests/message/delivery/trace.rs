//! `_trace`: a call that asks for its trace gets it, and so do the events that it causes.

use serde_json::{Value, json};

use crate::message::{message, received, two};
use crate::support::TestServer;

const ID: &str = "0123456789abcdef0123456789abcdef";

fn traced(to: &str, mode: &str) -> Value {
    let mut params = message(to, "hello");
    params["_trace"] = json!({ "trace_id": ID, "mode": mode, "spans": [{ "node": "sdk", "action": "send", "ts": 1, "ms": 0 }] });
    params
}

#[tokio::test]
async fn a_diagnosis_comes_back_beside_the_result_and_goes_on_to_the_reader() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let answer = alice.whole_answer("message.send", &traced(bob.aid(), "diag")).await;
    assert_eq!(answer["result"]["status"], "delivered");
    assert!(answer["result"].get("_trace").is_none(), "beside the result, not in it: {answer}");
    let trace = &answer["_trace"];
    assert_eq!((&trace["trace_id"], &trace["mode"]), (&json!(ID), &json!("diag")));
    let spans = trace["spans"].as_array().unwrap();
    let has = |node: &str, action: Option<&str>| {
        spans.iter().any(|span| span["node"] == node && action.is_none_or(|action| span["action"] == action))
    };
    assert!(spans.len() >= 3 && spans.len() <= 32, "{trace}");
    assert!(
        has("gateway", None) && has("message", Some("relay_in")) && has("message", Some("relay_out")),
        "{trace}"
    );
    let out = spans.iter().find(|span| span["action"] == "relay_out").unwrap();
    assert!(out["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{out}");

    let event = received(&bob).await;
    assert_eq!((&event["_trace"]["trace_id"], &event["_trace"]["mode"]), (&json!(ID), &json!("diag")));
    assert!(event["_trace"]["spans"].is_array());
}

#[tokio::test]
async fn a_trace_for_the_log_is_only_passed_on() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let answer = alice.whole_answer("message.send", &traced(bob.aid(), "log")).await;
    assert!(answer.get("_trace").is_none() && answer["result"].get("_trace").is_none(), "{answer}");
    assert_eq!(received(&bob).await["_trace"]["trace_id"], ID);
}

#[tokio::test]
async fn without_a_trace_nobody_sees_one_and_a_broken_one_breaks_nothing() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let answer = alice.whole_answer("message.send", &message(bob.aid(), "hello")).await;
    assert!(answer.get("_trace").is_none());
    assert!(received(&bob).await.get("_trace").is_none());
    for broken in [
        json!(7),
        json!({}),
        json!({ "trace_id": 1, "mode": [] }),
        json!({ "trace_id": "x", "mode": "loud" }),
        Value::Null,
    ] {
        let mut params = message(bob.aid(), "hello");
        params["_trace"] = broken.clone();
        let answer = alice.whole_answer("message.send", &params).await;
        assert_eq!(answer["result"]["status"], "delivered", "{broken}: {answer}");
        received(&bob).await;
    }
}

#[tokio::test]
async fn no_more_than_32_steps_are_kept() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let mut params = traced(bob.aid(), "diag");
    let span = json!({ "node": "sdk", "action": "x", "ts": 1, "ms": 0 });
    params["_trace"]["spans"] = json!(vec![span; 100]);
    let answer = alice.whole_answer("message.send", &params).await;
    let most = answer["_trace"]["spans"].as_array().map_or(0, Vec::len);
    assert!(most <= 32, "{most}");
}
