//! What a result says, sentence by sentence of the seed, and that it says the same of a log of any length.

use serde_json::{Value, json};

use super::client::{TestBackEnd, TestManager, TestRunner, assert_contiguous, number, replied, said};
use crate::support::agent::text;
use crate::support::{on_sqlite, split};

/// Where one command of a run stands, with what was appended to it.
struct WorkedCommand {
    back_end: TestBackEnd,
    runner: TestRunner,
    run: String,
    command: String,
}

impl WorkedCommand {
    async fn new(manager: &TestManager) -> WorkedCommand {
        let back_end = manager.back_end().await;
        let (run, command, runner) = back_end.working().await;
        WorkedCommand { back_end, runner, run, command }
    }

    async fn append(&self, events: &[(&str, Value)]) -> i64 {
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let events: Vec<Value> = events
            .iter()
            .map(|(kind, payload)| {
                let id = format!("e-{}", NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
                json!({ "clientEventId": id, "type": kind, "commandId": self.command, "payload": payload })
            })
            .collect();
        number(&self.runner.append(json!(events)).await["lastSeq"])
    }

    async fn result(&self) -> Value {
        let of_command = self.back_end.result(&self.run, &self.command).await;
        let path = format!("/runs/{}/result?commandId={}", self.run, self.command);
        let of_run = self.back_end.api.get(&path).await;
        assert_eq!(steady(of_run), steady(of_command.clone()), "both routes say the same");
        of_command
    }
}

/// What does not grow older while it is looked at.
fn steady(mut result: Value) -> Value {
    for member in ["lastEventAgeMs", "heartbeatAgeMs"] {
        result["liveness"][member] = Value::Null;
    }
    result
}

fn assistant(words: &str) -> (&'static str, Value) {
    ("assistant_message", json!({ "text": words }))
}

#[tokio::test]
async fn nothing_but_a_terminal_status_completes() {
    let manager = TestManager::shared().await;
    let at = WorkedCommand::new(&manager).await;
    let output =
        json!({ "stream": "stdout", "text": "all done", "outputBytes": 8, "outputTruncated": false });
    for events in [
        vec![("assistant_message", json!({ "text": "almost", "partial": true, "itemId": "i" }))],
        vec![("command_output", output)],
        vec![("backend_status", json!({ "phase": "transport-closed" }))],
        vec![("backend_status", json!({ "phase": "idle-timeout" }))],
        vec![("assistant_message", json!({ "text": "final", "final": true, "replyAuthority": true }))],
        vec![("error", json!({ "failureKind": "backend-failed", "message": "oops", "retryable": false }))],
    ] {
        let last = at.append(&events).await;
        let result = at.result().await;
        assert_eq!(
            (&result["completed"], &result["terminalStatus"], &result["terminalSource"], &result["status"]),
            (&json!(false), &json!(null), &json!("none"), &json!("running")),
            "{events:?}: {result}"
        );
        assert_eq!((&result["lastSeq"], &result["failureKind"]), (&json!(last), &json!(null)));
    }
    assert!(at.back_end.read(&at.run).await["terminalStatus"].is_null());
    at.runner.report(&at.command, "completed").await;
    let result = at.result().await;
    assert_eq!(
        (&result["completed"], &result["terminalStatus"], &result["terminalSource"]),
        (&json!(true), &json!("completed"), &json!("command-record"))
    );
    assert_eq!(result["liveness"]["phase"], "terminal");
}

#[tokio::test]
async fn the_reply_is_the_last_authoritative_one_or_else_the_last_that_was_said() {
    let manager = TestManager::shared().await;
    let partial = |item: &str, words: &str| {
        ("assistant_message", json!({ "text": words, "partial": true, "itemId": item }))
    };
    let last = |words: &str| ("assistant_message", json!({ "text": words, "final": true }));
    let authority = |words: &str| ("assistant_message", json!({ "text": words, "replyAuthority": true }));
    let cut = json!({ "text": "cut", "final": true, "textTruncated": true, "outputTruncated": true });
    for (events, reply, seq, source) in [
        (vec![], None, None, None),
        (vec![("reasoning", json!({ "text": "hm" }))], None, None, None),
        (vec![assistant("one"), assistant("two")], Some("two"), Some(2), Some("fallback-last-assistant")),
        (vec![assistant("one"), assistant("")], Some("one"), Some(1), Some("fallback-last-assistant")),
        (vec![last("one"), assistant("two")], Some("one"), Some(1), Some("authoritative")),
        (vec![last("one"), authority("two"), assistant("x")], Some("two"), Some(2), Some("authoritative")),
        (vec![authority("one"), last("two")], Some("two"), Some(2), Some("authoritative")),
        (vec![("assistant_message", cut)], Some("cut"), Some(1), Some("authoritative")),
        (
            vec![assistant("early"), partial("i", "he"), partial("j", "other"), partial("i", "llo")],
            Some("hello"),
            Some(4),
            Some("fallback-last-assistant"),
        ),
    ] {
        let at = WorkedCommand::new(&manager).await;
        if !events.is_empty() {
            at.append(&events).await;
        }
        at.runner.report(&at.command, "completed").await;
        let result = at.result().await;
        let shown = format!("{events:?}: {result}");
        assert_eq!(result["reply"], json!(reply), "{shown}");
        assert_eq!(
            (&result["finalAssistantSeq"], &result["finalAssistantSource"]),
            (&json!(seq), &json!(source)),
            "{shown}"
        );
        let truncated = reply == Some("cut");
        assert_eq!(
            (&result["finalAssistantTextTruncated"], &result["finalAssistantOutputTruncated"]),
            (&json!(truncated), &json!(truncated)),
            "{shown}"
        );
        let Some(reply) = reply else {
            assert!(result["finalResponse"].is_null(), "{shown}");
            continue;
        };
        let response = &result["finalResponse"];
        assert_eq!(
            (
                &response["text"],
                &response["seq"],
                &response["source"],
                &response["textTruncated"],
                &response["outputTruncated"]
            ),
            (&json!(reply), &json!(seq), &json!(source), &json!(truncated), &json!(truncated)),
            "{shown}"
        );
        assert_eq!(
            response["final"] == true || response["replyAuthority"] == true,
            source == Some("authoritative"),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn a_result_is_of_one_command_and_says_where_the_run_stands() {
    let manager = TestManager::shared().await;
    let at = WorkedCommand::new(&manager).await;
    at.append(&[assistant("of the first")]).await;
    at.runner.report(&at.command, "completed").await;
    let second = at.back_end.turn(&at.run, "second").await;
    at.runner.acknowledge(&second).await;
    at.runner.append(json!([replied(&second, "s-1", "of the second"), said(&second, "s-2", "more")])).await;
    let first = at.result().await;
    assert_eq!(
        [
            &first["scopedEventCount"],
            &first["scopedLastSeq"],
            &first["eventCount"],
            &first["lastSeq"],
            &first["nextAfterSeq"]
        ],
        [&json!(2), &json!(2), &json!(4), &json!(4), &json!(4)],
        "{first}"
    );
    assert_eq!((&first["reply"], &first["eventsCapped"]), (&json!("of the first"), &json!(false)));
    let other = at.back_end.result(&at.run, &second).await;
    assert_eq!(
        (&other["reply"], &other["scopedEventCount"], &other["scopedLastSeq"]),
        (&json!("of the second"), &json!(2), &json!(4))
    );
    assert_eq!((&other["attemptId"], &other["runId"]), (&json!(at.runner.attempt), &json!(at.run)));
    let newest = at.back_end.api.get(&format!("/runs/{}/result", at.run)).await;
    assert_eq!(steady(newest), steady(other), "without a command it is of the newest one");
    let empty = at.back_end.run().await;
    let none = at.back_end.api.get(&format!("/runs/{empty}/result")).await;
    assert_eq!(
        (&none["commandId"], &none["status"], &none["reply"]),
        (&json!(null), &json!("pending"), &json!(null))
    );
}

#[tokio::test]
async fn calls_of_tools_and_outputs_are_summed_up_within_bounds() {
    let manager = TestManager::shared().await;
    let at = WorkedCommand::new(&manager).await;
    let tool = |id: usize, more: Value| {
        let mut payload =
            json!({ "callId": format!("c-{id}"), "method": "exec", "toolName": "shell", "type": "function" });
        payload.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        ("tool_call", payload)
    };
    let long = "x".repeat(700);
    let mut events = Vec::new();
    for id in 0..50 {
        events.push(tool(id, json!({ "status": "started", "command": long })));
        let (status, code) = if id % 5 == 0 { ("failed", 1) } else { ("completed", 0) };
        events.push(tool(id, json!({ "status": status, "exitCode": code })));
    }
    events.push(tool(50, json!({ "status": "started" })));
    for _ in 0..30 {
        let output =
            json!({ "stream": "stderr", "text": "out", "outputBytes": 1000, "outputTruncated": true });
        events.push(("command_output", output));
    }
    at.append(&events).await;
    let result = at.result().await;
    let tools = &result["toolCallSummary"];
    assert_eq!(
        (&tools["count"], &tools["statusCounts"], &tools["exitCodeCounts"]),
        (&json!(51), &json!({ "completed": 40, "failed": 10, "started": 1 }), &json!({ "0": 40, "1": 10 }))
    );
    let items = tools["items"].as_array().expect("items");
    assert_eq!((items.len(), &items[39]["callId"]), (40, &json!("c-50")), "the newest");
    assert_eq!(
        (items[38]["command"].as_str().map(str::len), &items[38]["status"]),
        (Some(600), &json!("completed"))
    );
    assert_eq!(items[38]["toolName"], "shell");
    let outputs = &result["artifactSummary"];
    assert_eq!(
        (&outputs["outputCount"], &outputs["outputBytes"], &outputs["outputTruncated"]),
        (&json!(30), &json!(30_000), &json!(true))
    );
    assert!(
        outputs["seqs"].as_array().is_some_and(|seqs| seqs.len() <= 20) && outputs.to_string().len() < 1000,
        "{outputs}"
    );
    assert_eq!(result["liveness"]["phase"], "waiting-tool");
    // A tool that failed says nothing about the command.
    at.runner.report(&at.command, "completed").await;
    assert_eq!(at.result().await["completed"], true);
}

#[tokio::test]
async fn liveness_says_what_is_waited_for_and_what_can_be_done() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let run = back_end.run().await;
    let command = back_end.turn(&run, "x").await;
    let phase = async |expected: &str, action: &str| {
        let result = back_end.result(&run, &command).await;
        let liveness = &result["liveness"];
        assert_eq!(
            (&liveness["phase"], &liveness["active"]),
            (&json!(expected), &json!(expected != "terminal")),
            "{result}"
        );
        assert_eq!(liveness["lastSeq"], result["lastSeq"]);
        let recovery = liveness["recovery"].as_array().expect("what can be done");
        let offered = recovery.iter().find(|one| text(&one["path"]).contains(action));
        assert!(offered.is_some_and(|one| one["method"].is_string()), "{action}: {liveness}");
        liveness.clone()
    };
    phase("waiting-runner", "/runner-jobs").await;
    let mut runner = back_end.runner(&run, &command).await;
    runner.claim().await;
    // Another one would be refused while this one has the lease.
    phase("waiting-runner", "/events").await;
    runner.acknowledge(&command).await;
    let waiting = phase("waiting-model", "/events").await;
    assert_eq!(
        (&waiting["lease"]["runnerId"], &waiting["lease"]["expired"]),
        (&json!(runner.id), &json!(false))
    );
    assert!(waiting["heartbeatAgeMs"].as_i64().is_some_and(|age| (0..60_000).contains(&age)), "{waiting}");
    let event = |id: &str, kind: &str, payload: Value| json!([{ "clientEventId": id, "type": kind, "commandId": command, "payload": payload }]);
    runner.append(event("1", "tool_call", json!({ "callId": "c", "status": "started" }))).await;
    let tool = phase("waiting-tool", "/cancel").await;
    assert!(tool["lastEventAgeMs"].as_i64().is_some_and(|age| (0..60_000).contains(&age)), "{tool}");
    runner.append(event("2", "tool_call", json!({ "callId": "c", "status": "completed" }))).await;
    phase("waiting-model", "/events").await;
    runner.append(event("3", "backend_status", json!({ "phase": "transport-closed" }))).await;
    phase("transport-disconnected", "/runner-jobs").await;
    runner.append(event("4", "backend_status", json!({ "phase": "transport-open" }))).await;
    runner.append(event("5", "approval_request", json!({ "approvalId": "a", "reason": "?" }))).await;
    phase("waiting-approval", "/approvals/a").await;
    runner.report(&command, "blocked").await;
    phase("terminal", "/result").await;
    assert_eq!(back_end.api.events(&run).await.len(), 6, "nothing of it is stored");
}

#[tokio::test]
async fn a_steer_that_is_completed_says_what_became_of_it_and_no_more() {
    let manager = TestManager::shared().await;
    let at = WorkedCommand::new(&manager).await;
    let body = json!({ "type": "steer", "payload": { "text": "to the left" } });
    let steer = at.back_end.command(&at.run, &body).await;
    let delivery = async || at.back_end.result(&at.run, &steer).await["steerDelivery"].clone();
    let before = delivery().await;
    assert_eq!(
        (&before["runnerAcked"], &before["backendAccepted"]),
        (&json!(false), &json!(false)),
        "{before}"
    );
    at.runner.acknowledge(&steer).await;
    let acked = delivery().await;
    assert_eq!(
        (&acked["runnerAcked"], &acked["targetCommandId"]),
        (&json!(true), &json!(at.command)),
        "{acked}"
    );
    let told = json!({ "targetCommandId": at.command, "runnerAcked": true, "backendAccepted": true });
    at.runner
        .append(
            json!([{ "clientEventId": "d", "type": "steer_delivery", "commandId": steer, "payload": told }]),
        )
        .await;
    at.runner.report(&steer, "completed").await;
    let done = delivery().await;
    assert_eq!(
        (&done["backendAccepted"], &done["targetActivityObserved"]),
        (&json!(true), &json!(false)),
        "{done}"
    );
    assert!(done["note"].as_str().is_some_and(|note| !note.is_empty()));
    at.append(&[assistant("going left")]).await;
    assert_eq!(delivery().await["targetActivityObserved"], true);
    assert!(at.result().await.get("steerDelivery").is_none_or(Value::is_null), "a turn has none");
}

#[tokio::test]
async fn a_long_trace_has_its_end_and_its_last_reply_in_the_result() {
    let manager = TestManager::shared().await;
    let at = WorkedCommand::new(&manager).await;
    let body = json!({ "type": "steer", "payload": { "text": "faster" } });
    let mut final_seq = 0;
    for batch in 0..25 {
        let mut events: Vec<(&str, Value)> = Vec::new();
        for n in 0..199 {
            events.push(match n % 4 {
                0 => ("assistant_message", json!({ "text": format!("{batch} {n}"), "partial": true, "itemId": format!("i-{batch}") })),
                1 => ("reasoning", json!({ "text": "hm" })),
                2 => ("command_output", json!({ "stream": "stdout", "text": "x" })),
                _ => assistant("a snapshot"),
            });
        }
        events.push((
            "assistant_message",
            json!({ "text": format!("final {batch}"), "final": true, "replyAuthority": true }),
        ));
        final_seq = at.append(&events).await;
        if batch == 12 {
            let steer = at.back_end.command(&at.run, &body).await;
            at.runner.acknowledge(&steer).await;
            at.runner.report(&steer, "completed").await;
        }
    }
    at.append(&[assistant("after the reply")]).await;
    at.runner.report(&at.command, "completed").await;
    let events = at.back_end.api.events(&at.run).await;
    assert_contiguous(&events);
    let last = events.last().expect("its end");
    assert_eq!((events.len(), &last["type"]), (5003, &json!("terminal_status")));
    let result = at.result().await;
    assert_eq!(
        [
            &result["lastSeq"],
            &result["eventCount"],
            &result["scopedLastSeq"],
            &result["scopedEventCount"],
            &result["nextAfterSeq"]
        ],
        [&last["seq"], &json!(5003), &last["seq"], &json!(5002), &last["seq"]]
    );
    assert_eq!(
        (&result["finalAssistantSeq"], &result["reply"], &result["eventsCapped"]),
        (&json!(final_seq), &json!("final 24"), &json!(false))
    );
}

/// Once, where it costs least: with as many events as a result reads it says everything, and with one more that there is more.
#[tokio::test]
async fn a_result_of_more_than_a_hundred_thousand_events_says_so() {
    if !on_sqlite() || split() {
        return;
    }
    let manager = TestManager::shared().await;
    let at = WorkedCommand::new(&manager).await;
    let filler: Vec<(&str, Value)> = (0..200).map(|_| ("reasoning", json!({}))).collect();
    for _ in 0..499 {
        at.append(&filler).await;
    }
    at.append(&filler[..198]).await;
    at.append(&[("assistant_message", json!({ "text": "the reply", "final": true }))]).await;
    at.runner.report(&at.command, "completed").await;
    let whole = at.back_end.result(&at.run, &at.command).await;
    assert_eq!(
        [
            &whole["lastSeq"],
            &whole["eventCount"],
            &whole["eventsCapped"],
            &whole["finalAssistantSeq"],
            &whole["nextAfterSeq"]
        ],
        [&json!(100_000), &json!(100_000), &json!(false), &json!(99_999), &json!(100_000)]
    );
    let next = at.back_end.turn(&at.run, "one more").await;
    at.back_end.api.ok("POST", &format!("/commands/{next}/cancel"), &json!({}), 200).await;
    let capped = at.back_end.result(&at.run, &next).await;
    assert_eq!(
        [&capped["eventsCapped"], &capped["eventCount"], &capped["nextAfterSeq"], &capped["completed"]],
        [&json!(true), &json!(100_000), &json!(100_000), &json!(false)],
        "{capped}"
    );
    // What was not read is not made up: the state comes from the record, and the rest is where the cursor points.
    assert_eq!((&capped["status"], &capped["terminalStatus"]), (&json!("cancelled"), &json!("cancelled")));
    let rest = at.back_end.api.get(&format!("/runs/{}/events?afterSeq=100000", at.run)).await;
    assert_eq!((rest["events"].as_array().map(Vec::len), &rest["lastSeq"]), (Some(1), &json!(100_001)));
}

#[tokio::test]
async fn a_reply_without_completion_is_shown_and_completes_nothing() {
    let manager = TestManager::shared().await;
    for status in ["failed", "blocked", "cancelled"] {
        let at = WorkedCommand::new(&manager).await;
        at.append(&[(
            "assistant_message",
            json!({ "text": "done!", "final": true, "replyAuthority": true }),
        )])
        .await;
        let other = at.back_end.turn(&at.run, "other").await;
        at.runner.acknowledge(&other).await;
        let failure = json!({ "failureKind": "provider-auth-failed", "message": "of the other one" });
        at.runner
            .append(
                json!([{ "clientEventId": "o", "type": "error", "commandId": other, "payload": failure }]),
            )
            .await;
        if status == "cancelled" {
            at.back_end.api.ok("POST", &format!("/commands/{}/cancel", at.command), &json!({}), 200).await;
        }
        at.runner.report(&at.command, status).await;
        let result = at.result().await;
        assert_eq!(
            [&result["completed"], &result["status"], &result["terminalStatus"], &result["terminalSource"]],
            [&json!(false), &json!(status), &json!(status), &json!("command-record")],
            "{result}"
        );
        assert_eq!(
            (&result["finalResponse"]["text"], &result["finalAssistantSeq"]),
            (&json!("done!"), &json!(1))
        );
        assert_ne!(result["failureKind"], "provider-auth-failed", "of another command: {result}");
        let of_run = at.back_end.read(&at.run).await;
        assert!(of_run["terminalStatus"].is_null(), "{of_run}");
    }
}
