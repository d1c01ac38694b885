//! The events of sessions.

use crate::tests::support::{TestRun, TestRuns, refusal};
use serde_json::{Value, json};

/// The seqs on a page, where the next one begins, and whether there is more.
async fn page(runs: &TestRuns, method: &str, params: Value) -> (Vec<i64>, i64, bool) {
    let page = runs.ok(method, params).await;
    let seqs = page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_i64().unwrap());
    (seqs.collect(), page["nextAfterSeq"].as_i64().unwrap(), page["hasMore"].as_bool().unwrap())
}

#[tokio::test]
async fn a_trace_has_all_events_and_an_output_what_was_said() {
    let runs = TestRuns::open().await;
    let id = runs.session().await;
    let of = |params: Value| {
        let mut all = json!({ "sessionId": id });
        all.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
        all
    };
    let empty = (Vec::new(), 0, false);
    assert_eq!(page(&runs, "session.trace", of(json!({}))).await, empty, "without a run");
    runs.insert_run(&TestRun { session: Some(&id), ..TestRun::NEW }).await;
    assert_eq!(page(&runs, "session.output", of(json!({}))).await, empty, "without events");
    let kinds = ["runner_status", "assistant_message", "reasoning", "command_output", "tool_call", "error"];
    for (seq, kind) in (1..).zip(kinds.into_iter().chain(["terminal_status", "runner_status", "plan"])) {
        runs.append(seq, kind, 20).await;
    }

    let shown = runs.ok("session.trace", of(json!({ "limit": 1 }))).await;
    assert_eq!(shown["lastSeq"], 9);
    let event = &shown["events"][0];
    assert_eq!((&event["type"], &event["runId"]), (&json!("runner_status"), &json!("run_1")));
    assert_eq!(event["payload"]["text"], "xxxxxxxxx");
    let trace = async |after, limit| {
        page(&runs, "session.trace", of(json!({ "afterSeq": after, "limit": limit }))).await
    };
    assert_eq!(trace(0, 3).await, (vec![1, 2, 3], 3, true));
    assert_eq!(trace(3, 500).await, (vec![4, 5, 6, 7, 8, 9], 9, false));
    assert_eq!(trace(9, 500).await, (vec![], 9, false));
    assert_eq!(trace(20, 500).await, (vec![], 20, false), "behind the end");
    let output = async |after, limit| {
        page(&runs, "session.output", of(json!({ "afterSeq": after, "limit": limit }))).await
    };
    assert_eq!(output(0, 2).await, (vec![2, 4], 4, true));
    assert_eq!(output(4, 2).await, (vec![6, 7], 9, false), "what follows is no output");
    assert_eq!(output(0, 4).await, (vec![2, 4, 6, 7], 9, false));
    runs.append(10, "error", 20).await;
    assert_eq!(output(9, 2).await, (vec![10], 10, false), "nothing was skipped");

    runs.sql("UPDATE run_session SET active_run = NULL").await;
    assert_eq!(trace(8, 5).await, (vec![9, 10], 10, false), "of the last run");
    let named = of(json!({ "runId": "run_1", "afterSeq": 9 }));
    assert_eq!(page(&runs, "session.trace", named).await, (vec![10], 10, false));
    let others = of(json!({ "runId": "run_2" }));
    assert_eq!(runs.refused("session.trace", others).await, refusal("not-found", 404));
    for bad in [json!({ "limit": 0 }), json!({ "limit": 501 }), json!({ "afterSeq": -1 })] {
        let refused = runs.refused("session.output", of(bad.clone())).await;
        assert_eq!(refused, refusal("schema-invalid", 400), "{bad}");
    }
}

#[tokio::test]
async fn a_page_of_large_events_ends_early() {
    let runs = TestRuns::open().await;
    let id = runs.session().await;
    runs.insert_run(&TestRun { session: Some(&id), ..TestRun::NEW }).await;
    for seq in 1..=6 {
        runs.append(seq, "command_output", 256 << 10).await;
    }
    let first = page(&runs, "session.output", json!({ "sessionId": id })).await;
    assert_eq!(first, (vec![1, 2, 3, 4], 4, true));
    let second = page(&runs, "session.output", json!({ "sessionId": id, "afterSeq": 4 })).await;
    assert_eq!(second, (vec![5, 6], 6, false));
}
