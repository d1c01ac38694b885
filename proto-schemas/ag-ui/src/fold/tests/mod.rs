//! What is common to the tests of the fold.

mod ends;
mod numbers;
mod questions;
mod random;
mod steps;
mod texts;
mod tools;
mod verifier;

use super::{Frame, LogEvent, RunPart, ThreadFold};
use serde_json::{Value, json};

/// An event of a log, without its number.
#[derive(Clone, Debug)]
struct TestEvent {
    command: String,
    kind: &'static str,
    payload: String,
}

fn event(command: &str, kind: &'static str, payload: &Value) -> TestEvent {
    TestEvent { command: command.to_owned(), kind, payload: payload.to_string() }
}

fn partial(item: &str, text: &str) -> TestEvent {
    event("c", "assistant_message", &json!({ "itemId": item, "partial": true, "text": text }))
}

fn whole(item: &str, text: &str) -> TestEvent {
    event("c", "assistant_message", &json!({ "itemId": item, "text": text, "final": false }))
}

fn last(item: &str, text: &str) -> TestEvent {
    event(
        "c",
        "assistant_message",
        &json!({ "itemId": item, "text": text, "final": true, "replyAuthority": true }),
    )
}

fn thought(item: &str, text: &str) -> TestEvent {
    event("c", "reasoning", &json!({ "itemId": item, "text": text }))
}

fn call(id: &str, status: &str) -> TestEvent {
    event("c", "tool_call", &json!({ "callId": id, "toolName": "clock", "status": status }))
}

fn stage(name: &str, phase: &str) -> TestEvent {
    event("c", "backend_status", &json!({ "phase": format!("stage-{phase}"), "stage": name }))
}

fn asked(id: &str) -> TestEvent {
    event("c", "approval_request", &json!({ "approvalId": id, "reason": "example" }))
}

fn answered(id: &str) -> TestEvent {
    event("c", "approval_resolved", &json!({ "approvalId": id, "decision": "accept", "by": "x" }))
}

fn ended(status: &str) -> TestEvent {
    event("c", "terminal_status", &json!({ "status": status, "scope": "command" }))
}

impl TestEvent {
    fn of(self, command: &str) -> TestEvent {
        TestEvent { command: command.to_owned(), ..self }
    }
}

fn part(run: &str) -> RunPart {
    RunPart { run_id: run.to_owned(), parent_run_id: None, has_protocol_version: false, answers: Vec::new() }
}

fn answering(run: &str, questions: &[&str]) -> RunPart {
    RunPart { answers: questions.iter().map(|id| (*id).to_owned()).collect(), ..part(run) }
}

/// Folds a log whose numbers begin with 1.
fn fold_all(fold: &mut ThreadFold, events: &[TestEvent]) -> Vec<Frame> {
    let mut frames = Vec::new();
    for (event, seq) in events.iter().zip(1..) {
        frames.extend(push(fold, event, seq));
    }
    frames
}

fn push(fold: &mut ThreadFold, event: &TestEvent, seq: i64) -> Vec<Frame> {
    let TestEvent { command, kind, payload } = event;
    fold.push(&LogEvent { seq, kind, command_id: Some(command), payload })
}

/// The frames of command `c`, which is the AG-UI run `r` and goes on as `r2`, `r3`, … when `q2`, `q3`, … are answered.
fn frames(events: &[TestEvent]) -> Vec<Frame> {
    let mut fold = ThreadFold::with_plain_names("t", 0);
    let later = (2..5).map(|n| answering(&format!("r{n}"), &[&format!("q{n}")]));
    fold.learn("c", std::iter::once(part("r")).chain(later).collect());
    let frames = fold_all(&mut fold, events);
    verifier::check(&frames);
    frames
}

/// The same as texts, one for each frame: what it is, and what its members are, without those that are always the same.
fn shown(events: &[TestEvent]) -> Vec<String> {
    frames(events).iter().map(text).collect()
}

/// What is shown behind the beginning of the run.
fn shown_in_run(events: &[TestEvent]) -> Vec<String> {
    let mut shown = shown(events);
    assert_eq!(shown.remove(0), "RUN_STARTED r");
    shown
}

/// What is shown between the beginning of `worker` and its end, if nothing else stands around it.
fn shown_in_worker(events: &[TestEvent]) -> Vec<String> {
    let mut shown = shown_in_run(events);
    let before = ["STEP_STARTED router", "STEP_FINISHED router", "STEP_STARTED worker"];
    assert_eq!(shown.drain(..3).collect::<Vec<_>>(), before);
    shown
}

fn text(frame: &Frame) -> String {
    let data: Value = serde_json::from_str(&frame.data).unwrap();
    assert!(frame.data.starts_with(&format!("{{\"type\":\"{}\"", frame.kind)), "{}", frame.data);
    let members = [
        "runId",
        "parentRunId",
        "protocolVersion",
        "outcome",
        "code",
        "message",
        "stepName",
        "messageId",
        "toolCallId",
        "toolCallName",
        "parentMessageId",
        "delta",
        "content",
        "metadata",
        "name",
        "value",
    ];
    let mut text = frame.kind.to_owned();
    for member in members {
        match &data[member] {
            Value::Null => assert!(data.get(member).is_none(), "{}", frame.data),
            Value::String(value) => text.extend([" ", value]),
            value => text.extend([" ", &value.to_string()]),
        }
    }
    text
}
