//! `_trace`: a call that asks for its trace gets it, and so do the events that it causes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::message::{message, next, received, say, two};
use crate::support::blocker::Blocker;
use crate::support::envelope::{put_key, sealed};
use crate::support::{TestServer, now_ms, split};

const ID: &str = "0123456789abcdef0123456789abcdef";
/// Times are written in whole milliseconds, and processes read the clock apart from each other.
const ROUNDING_MS: f64 = 2.0;

fn traced(to: &str, mode: &str) -> Value {
    with_trace(message(to, "hello"), mode)
}

fn with_trace(mut params: Value, mode: &str) -> Value {
    params["_trace"] = json!({ "trace_id": ID, "mode": mode, "spans": [{ "node": "sdk", "action": "send", "ts": 1, "ms": 0 }] });
    params
}

/// A span as the test compares it: when the step began and ended, in milliseconds since 1970.
struct ShownStep {
    name: String,
    began: f64,
    took: f64,
}

impl ShownStep {
    fn read(span: &Value) -> ShownStep {
        let number = |name: &str| span[name].as_f64().unwrap_or_else(|| panic!("{name} is a number: {span}"));
        let name =
            |name: &str| span[name].as_str().unwrap_or_else(|| panic!("{name} is text: {span}")).to_owned();
        let (action, ts, took) = (name("action"), number("ts"), number("ms"));
        // This one says when the service was done.
        let began = if action == "relay_out" { ts - took } else { ts };
        ShownStep { name: format!("{}.{action}", name("node")), began, took }
    }

    fn ended(&self) -> f64 {
        self.began + self.took
    }

    fn is_within(&self, outer: &ShownStep) -> bool {
        self.began >= outer.began - ROUNDING_MS && self.ended() <= outer.ended() + ROUNDING_MS
    }
}

fn steps(trace: &Value) -> Vec<ShownStep> {
    let spans = trace["spans"].as_array().unwrap_or_else(|| panic!("a trace has spans: {trace}"));
    spans.iter().map(ShownStep::read).collect()
}

fn step<'a>(steps: &'a [ShownStep], name: &str) -> &'a ShownStep {
    let names = || steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>();
    steps.iter().find(|step| step.name == name).unwrap_or_else(|| panic!("no {name} among {:?}", names()))
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
    let shown = steps(trace);
    assert!(shown.len() >= 3 && shown.len() <= 32, "{trace}");
    for name in ["gateway.route", "message.relay_in", "store.commit"] {
        step(&shown, name);
    }
    assert!(step(&shown, "message.relay_out").took > 0.0, "{trace}");

    let event = received(&bob).await;
    assert_eq!((&event["_trace"]["trace_id"], &event["_trace"]["mode"]), (&json!(ID), &json!("diag")));
    let shown = steps(&event["_trace"]);
    for name in ["sdk.send", "gateway.admit", "message.relay_in"] {
        step(&shown, name);
    }
    assert!(step(&shown, "store.commit").is_within(step(&shown, "message.relay_out")), "{event}");
}

#[tokio::test]
async fn the_steps_of_a_call_are_within_each_other_and_within_the_time_it_took() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    say(&alice, &bob, "what is cached is cached").await;
    let (before, began) = (now_ms() as f64, Instant::now());
    let answer = alice.whole_answer("message.send", &traced(bob.aid(), "diag")).await;
    let (elapsed, trace) = (began.elapsed().as_secs_f64() * 1000.0, &answer["_trace"]);
    let shown = steps(trace);
    let [route, admit, service] =
        ["gateway.route", "gateway.admit", "message.relay_out"].map(|name| step(&shown, name));
    assert!(route.took <= elapsed, "{} ms of {elapsed}: {trace}", route.took);
    assert!(route.began >= before - ROUNDING_MS && route.began <= before + elapsed + ROUNDING_MS, "{trace}");
    for inner in shown.iter().filter(|step| step.name != "sdk.send") {
        assert!(inner.is_within(route), "{}: {trace}", inner.name);
    }
    for inner in ["message.relay_in", "store.commit"] {
        assert!(step(&shown, inner).is_within(service), "{inner}: {trace}");
    }
    let mesh = shown.iter().find(|step| step.name == "mesh.call");
    assert_eq!(mesh.is_some(), split(), "only another process is called over the mesh: {trace}");
    let called = mesh.unwrap_or(service);
    assert!(service.took <= called.took, "the way there and back is not the service's: {trace}");
    // One after the other; each is rounded up to a microsecond.
    assert!(admit.took + called.took <= route.took + 0.01, "{trace}");

    let params = with_trace(json!({ "after_seq": 0 }), "diag");
    let pulled = bob.whole_answer("message.pull", &params).await;
    let shown = steps(&pulled["_trace"]);
    assert!(step(&shown, "store.read").is_within(step(&shown, "message.relay_out")), "{}", pulled["_trace"]);
}

#[tokio::test]
async fn a_store_that_is_blocked_shows_in_its_own_step() {
    const HELD: Duration = Duration::from_millis(2500);
    let server = TestServer::start().await;
    let (alice, bob) = two(&server).await;
    say(&alice, &bob, "what is cached is cached").await;
    received(&bob).await;
    let blocker = Blocker::hold(&server, "message", "letter");
    let params = traced(bob.aid(), "diag");
    let release = async {
        tokio::time::sleep(HELD).await;
        blocker.release();
    };
    let (answer, ()) = futures_util::join!(alice.whole_answer("message.send", &params), release);
    assert_eq!(answer["result"]["status"], "delivered", "{answer}");
    let event = received(&bob).await;
    // The frame may have been on its way for a while, but not for most of the time.
    let blocked_ms = HELD.as_secs_f64() * 1000.0 * 0.6;
    for trace in [&answer["_trace"], &event["_trace"]] {
        let shown = steps(trace);
        let [store, service] = ["store.commit", "message.relay_out"].map(|name| step(&shown, name));
        assert!(store.took >= blocked_ms && service.took >= store.took, "{trace}");
        assert!(service.took - store.took < blocked_ms, "the service itself waited for nothing: {trace}");
        assert!(step(&shown, "gateway.admit").took < blocked_ms, "{trace}");
    }
    let shown = steps(&answer["_trace"]);
    assert!(step(&shown, "gateway.route").took >= step(&shown, "message.relay_out").took, "{answer}");
}

#[tokio::test]
async fn the_spans_of_a_client_come_back_unchanged_and_before_ours() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    let own = json!([
        { "node": "sdk", "ts": 1_700_000_000_000_i64, "action": "send" },
        { "node": "app", "action": "think", "ts": 1.5, "ms": 12.25, "aid": alice.aid(), "nested": { "x": [null, true] } },
    ]);
    let mut params = traced(bob.aid(), "diag");
    params["_trace"]["spans"] = own.clone();
    // What is no span, or longer than any, is not passed on.
    let spans = params["_trace"]["spans"].as_array_mut().unwrap();
    spans.extend([json!(7), json!("text"), json!({ "node": "x".repeat(2000) })]);
    let answer = alice.whole_answer("message.send", &params).await;
    let event = received(&bob).await;
    for trace in [&answer["_trace"], &event["_trace"]] {
        let spans = trace["spans"].as_array().unwrap();
        assert_eq!(&spans[..2], &own.as_array().unwrap()[..], "{trace}");
        assert_eq!(spans[2]["node"], "gateway", "{trace}");
    }
}

#[tokio::test]
async fn events_of_every_kind_of_message_carry_their_spans() {
    let server = TestServer::shared().await;
    let (alice, bob) = two(&server).await;
    put_key(&bob).await;
    let plain = |ttl: i64| {
        let mut params = message(bob.aid(), "hello");
        params["ttl"] = json!(ttl);
        (params, "event/message.received")
    };
    let encrypted = |id: &str, ttl: i64| {
        let mut params = sealed(&alice, bob.aid(), id);
        params["ttl"] = json!(ttl);
        (params, "event/peer.v2.message_received")
    };
    for (params, name) in [plain(0), plain(60), encrypted("m-1", 0), encrypted("m-2", 60)] {
        alice.call("message.send", &with_trace(params, "log")).await;
        let event = next(&bob, name).await;
        assert_eq!(event["_trace"]["trace_id"], ID, "{event}");
        let shown = steps(&event["_trace"]);
        assert!(step(&shown, "message.relay_out").took > 0.0, "{event}");
    }
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
    let step = |n: usize| json!({ "node": "sdk", "action": format!("step{n}"), "ts": n, "ms": 0 });
    let own: Vec<Value> = (0..100).map(step).collect();
    params["_trace"]["spans"] = json!(own);
    let answer = alice.whole_answer("message.send", &params).await;
    let spans = answer["_trace"]["spans"].as_array().expect("a diagnosis has spans");
    assert_eq!(spans.len(), 32, "{answer}");
    let (theirs, ours): (Vec<&Value>, Vec<&Value>) = spans.iter().partition(|span| span["node"] == "sdk");
    assert_eq!(theirs, own.iter().take(theirs.len()).collect::<Vec<_>>(), "the client's first, as they came");
    let has = |node: &str, action: &str| {
        ours.iter().any(|span| span["node"] == node && (action.is_empty() || span["action"] == action))
    };
    assert!(
        has("gateway", "") && has("message", "relay_in") && has("message", "relay_out"),
        "many steps of a client leave space for ours: {answer}"
    );
}
