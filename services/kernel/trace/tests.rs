use super::*;
use serde_json::{Value, json};

const AT_MS: i64 = 1_700_000_000_000;

fn call(given: &[&str]) -> Arc<TracedCall> {
    let trace = Trace { trace_id: "0".repeat(32), mode: TraceMode::Diag };
    let given = given.iter().map(|span| RawValue::from_string((*span).to_owned()).unwrap()).collect();
    TracedCall::new(trace, given, Instant::now(), AT_MS)
}

fn member(call: &TracedCall) -> Value {
    serde_json::from_str(call.member().unwrap().get()).unwrap()
}

fn names(spans: &Value) -> Vec<String> {
    let name =
        |span: &Value| format!("{}.{}", span["node"].as_str().unwrap(), span["action"].as_str().unwrap());
    spans.as_array().unwrap().iter().map(name).collect()
}

#[tokio::test]
async fn a_service_is_around_its_steps_and_the_gateway_is_shown_when_it_is_done() {
    let call = call(&[r#"{"node":"sdk","action":"send","ts":1.50}"#]);
    let route = call.begin("gateway", "route");
    drop(call.begin("gateway", "admit"));
    call.clone()
        .answered_by("message", async {
            let store = step("store", "commit");
            assert!(store.is_some());
            let event = member(&call);
            let expected =
                ["sdk.send", "gateway.admit", "message.relay_in", "store.commit", "message.relay_out"];
            assert_eq!(names(&event["spans"]), expected);
        })
        .await;
    assert!(step("store", "commit").is_none(), "no call is being answered");
    drop(route);
    let text = call.member().unwrap();
    assert!(text.get().contains(r#""ts":1.50}"#), "as the client wrote it: {text}");
    let answer = member(&call);
    assert_eq!((&answer["trace_id"], &answer["mode"]), (&json!("0".repeat(32)), &json!("diag")));
    let expected = [
        "sdk.send",
        "gateway.route",
        "gateway.admit",
        "message.relay_in",
        "store.commit",
        "message.relay_out",
    ];
    assert_eq!(names(&answer["spans"]), expected);
}

#[test]
fn times_are_those_of_the_steps() {
    let call = call(&[]);
    let began = call.at.checked_sub(Duration::from_millis(40)).unwrap();
    drop(call.begin_at("gateway", "route", began));
    let spans = call.spans();
    let [route] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(route.ts, AT_MS - 40);
    assert!(route.ms >= 40.0, "{route:?}");
}

#[test]
fn no_more_than_32_spans_and_ours_have_their_space() {
    let call = call(&[r#"{"node":"sdk"}"#; 40]);
    for _ in 0..40 {
        drop(call.begin("store", "commit"));
    }
    let spans = member(&call)["spans"].clone();
    let spans = spans.as_array().unwrap();
    let ours = spans.iter().filter(|span| span["node"] == "store").count();
    assert_eq!((spans.len(), ours), (MOST_SPANS, MOST_STEPS));
    assert_eq!(spans[0]["node"], "sdk");
}

#[test]
fn another_process_continues_a_trace_and_gives_back_what_it_measured() {
    let call = call(&[r#"{"node":"sdk"}"#]);
    drop(call.begin("gateway", "admit"));
    let carried: CarriedTrace = serde_json::from_str(call.member().unwrap().get()).unwrap();
    let there = carried.received(Instant::now(), AT_MS);
    drop(there.begin("store", "commit"));
    let event = member(&there);
    assert_eq!(event["spans"].as_array().unwrap().len(), 3, "{event}");
    let back = there.spans_for_caller().unwrap();
    assert_eq!(back.len(), 1, "only what it measured itself: {back:?}");
    call.add_remote(back);
    assert_eq!(call.spans().len(), 2);

    let without: CarriedTrace = serde_json::from_str(r#"{"trace_id":"7","mode":"log"}"#).unwrap();
    assert!(without.received(Instant::now(), AT_MS).spans_for_caller().is_none());
}
