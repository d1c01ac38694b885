use super::*;
use crate::redact::LONGEST_TEXT;
use RunEventType as Kind;
use proptest::prelude::*;
use proto_schemas::requests::run::{FinalSource, LivenessPhase};
use serde_json::{Value, json};
use testing::cases;

const NOW: i64 = 1_794_701_761_000;

struct EventLog(Vec<(Kind, Option<&'static str>, String)>);

impl EventLog {
    fn of(events: &[(Kind, Option<&'static str>, Value)]) -> EventLog {
        EventLog(
            events.iter().map(|(kind, command, payload)| (*kind, *command, payload.to_string())).collect(),
        )
    }

    /// Of the command `c`.
    fn own(events: &[(Kind, Value)]) -> EventLog {
        let own = |(kind, payload): &(Kind, Value)| (*kind, Some("c"), payload.to_string());
        EventLog(events.iter().map(own).collect())
    }

    fn fold(&self, scope: Option<&str>) -> ResultFold {
        let mut fold = ResultFold::new(scope);
        for ((kind, command_id, payload), seq) in self.0.iter().zip(1..) {
            let attempt_id = Some(if seq < 3 { "attempt_1" } else { "attempt_2" });
            let created_at = NOW - 100_000 + seq;
            fold.push(&FoldedEvent {
                seq,
                kind: *kind,
                command_id: *command_id,
                attempt_id,
                payload,
                created_at,
            });
        }
        fold
    }

    fn result(&self, state: CommandState) -> RunResult {
        self.fold(Some("c")).finish(&facts(CommandType::Turn, state))
    }
}

fn facts(kind: CommandType, state: CommandState) -> ResultFacts<'static> {
    ResultFacts {
        run_id: "run_1",
        run_status: RunStatus::Running,
        run_failure: FailureFacts::default(),
        command: Some(CommandFacts {
            command_id: "c",
            kind,
            state,
            failure: FailureFacts::default(),
            target_id: None,
            acknowledged: true,
        }),
        last_seq: 0,
        capped: false,
        lease: Some(LeaseFacts { runner_id: "runner_1", expires_at: NOW + 1000 }),
        heartbeat_at: Some(NOW - 5),
        now: NOW,
    }
}

fn said(text: &str) -> (Kind, Value) {
    (Kind::AssistantMessage, json!({ "text": text }))
}

fn part(item: &str, text: &str) -> (Kind, Value) {
    (Kind::AssistantMessage, json!({"text": text, "itemId": item, "partial": true}))
}

fn whole(item: &str, text: &str) -> (Kind, Value) {
    (Kind::AssistantMessage, json!({"text": text, "itemId": item, "final": false}))
}

fn answer(item: &str, text: &str) -> (Kind, Value) {
    (Kind::AssistantMessage, json!({"text": text, "itemId": item, "final": true, "replyAuthority": true}))
}

fn ended(status: &str) -> (Kind, Value) {
    (Kind::TerminalStatus, json!({"status": status, "scope": "command"}))
}

/// Events, and the text, the seq and the source of the answer.
type ChosenRow = (Vec<(Kind, Value)>, Option<(&'static str, i64, FinalSource)>);

#[test]
fn the_answer_is_chosen() {
    let end = ended("completed");
    let table: Vec<ChosenRow> = vec![
        (vec![], None),
        (vec![said(""), said("")], None),
        (vec![said("a"), said("b"), said("")], Some(("b", 2, FinalSource::FallbackLastAssistant))),
        (vec![answer("1", "a"), said("b")], Some(("a", 1, FinalSource::Authoritative))),
        (vec![answer("1", "a"), answer("2", "b")], Some(("b", 2, FinalSource::Authoritative))),
        (
            vec![said("a"), (Kind::AssistantMessage, json!({"text": "f", "final": true}))],
            Some(("f", 2, FinalSource::Authoritative)),
        ),
        (
            vec![(Kind::AssistantMessage, json!({"text": "r", "replyAuthority": true})), said("a")],
            Some(("r", 1, FinalSource::Authoritative)),
        ),
        (
            vec![part("1", "a"), part("1", "b"), part("1", "c")],
            Some(("abc", 3, FinalSource::FallbackLastAssistant)),
        ),
        (
            vec![part("1", "a"), part("2", "x"), part("1", "b")],
            Some(("ab", 3, FinalSource::FallbackLastAssistant)),
        ),
        (
            vec![part("1", "a"), part("1", "b"), whole("1", "AB")],
            Some(("AB", 3, FinalSource::FallbackLastAssistant)),
        ),
        (vec![whole("1", "a"), part("2", "b")], Some(("b", 2, FinalSource::FallbackLastAssistant))),
        (vec![whole("1", "a"), part("1", "late")], Some(("a", 1, FinalSource::FallbackLastAssistant))),
        (vec![part("1", "a"), answer("1", "")], Some(("a", 2, FinalSource::Authoritative))),
        (vec![whole("1", "a"), answer("1", "")], Some(("a", 2, FinalSource::Authoritative))),
        (vec![whole("1", "a"), answer("2", "")], Some(("", 2, FinalSource::Authoritative))),
        (
            vec![said("a"), end.clone(), said("after"), answer("1", "after")],
            Some(("a", 1, FinalSource::FallbackLastAssistant)),
        ),
        (
            vec![said("a"), (Kind::AssistantMessage, json!([]))],
            Some(("a", 1, FinalSource::FallbackLastAssistant)),
        ),
    ];
    for (events, expected) in table {
        let result = EventLog::own(&events).result(CommandState::Completed);
        let found = result.final_response.as_ref().map(|found| (&*found.text, found.seq, found.source));
        assert_eq!(found, expected, "{events:?}");
        assert_eq!(result.reply.as_deref(), expected.map(|(text, ..)| text).filter(|text| !text.is_empty()));
        assert_eq!(result.final_assistant_seq, expected.map(|(_, seq, _)| seq));
        assert_eq!(result.final_assistant_source, expected.map(|(.., source)| source));
    }
}

#[test]
fn the_flags_of_the_answer_are_shown() {
    let flags = json!({"text": "a", "final": true, "textTruncated": true, "outputTruncated": true});
    let result = EventLog::own(&[(Kind::AssistantMessage, flags)]).result(CommandState::Running);
    let response = result.final_response.unwrap();
    assert!(
        response.is_final
            && !response.reply_authority
            && response.text_truncated
            && response.output_truncated
    );
    assert!(result.final_assistant_text_truncated && result.final_assistant_output_truncated);
    assert!(!result.completed && result.terminal_status.is_none());
}

#[test]
fn joined_text_is_bounded_and_has_no_secret() {
    let long = "x".repeat(40 << 10);
    let result =
        EventLog::own(&[part("1", &long), part("1", &long), part("1", &long)]).result(CommandState::Failed);
    let response = result.final_response.unwrap();
    assert_eq!((response.text.len(), response.text_truncated), (LONGEST_TEXT, true));

    let halves = [part("1", "key sk-aB3dE5gH7j"), part("1", "K9mN1pQ3rS5tU7vW9 end")];
    assert_eq!(
        EventLog::own(&halves).result(CommandState::Failed).reply.as_deref(),
        Some("key [redacted] end")
    );
}

#[test]
fn events_of_other_commands_are_only_counted() {
    let log = EventLog::of(&[
        (Kind::BackendStatus, None, json!({"phase": "ready"})),
        (Kind::AssistantMessage, Some("c"), json!({"text": "mine", "final": true})),
        (Kind::AssistantMessage, Some("d"), json!({"text": "theirs", "final": true})),
        (Kind::CommandOutput, Some("d"), json!({"stream": "stdout", "text": "x", "outputBytes": 1})),
        (Kind::ToolCall, Some("d"), json!({"callId": "1", "status": "started"})),
        (Kind::TerminalStatus, Some("d"), json!({"status": "failed", "scope": "command"})),
        (Kind::AssistantMessage, None, json!({"text": "of the run"})),
    ]);
    let result = log.result(CommandState::Running);
    assert_eq!(result.reply.as_deref(), Some("mine"));
    assert_eq!((result.last_seq, result.event_count, result.next_after_seq), (7, 7, 7));
    assert_eq!((result.scoped_last_seq, result.scoped_event_count), (2, 1));
    assert_eq!((result.tool_call_summary.count, result.artifact_summary.output_count), (0, 0));
    assert_eq!(
        (result.terminal_source, result.attempt_id.as_deref()),
        (TerminalSource::Nothing, Some("attempt_1"))
    );
    let all = log
        .fold(None)
        .finish(&ResultFacts { command: None, ..facts(CommandType::Turn, CommandState::Running) });
    assert_eq!(
        (all.scoped_event_count, all.terminal_source, &*all.status),
        (7, TerminalSource::Event, "failed")
    );
}

#[test]
fn the_row_of_the_command_says_first_how_it_ended() {
    use CommandState as State;
    use RunStatus as LoadedRun;
    let table = [
        (State::Completed, Some("failed"), LoadedRun::Failed, "completed", TerminalSource::CommandRecord),
        (State::Running, Some("failed"), LoadedRun::Cancelled, "failed", TerminalSource::Event),
        (State::Running, None, LoadedRun::Cancelled, "cancelled", TerminalSource::RunRecord),
        (State::Running, None, LoadedRun::Running, "running", TerminalSource::Nothing),
        (State::Pending, None, LoadedRun::Claimed, "pending", TerminalSource::Nothing),
        (State::Acknowledged, None, LoadedRun::Completed, "completed", TerminalSource::RunRecord),
        (State::Blocked, None, LoadedRun::Running, "blocked", TerminalSource::CommandRecord),
    ];
    for (state, event, run_status, status, source) in table {
        let log = EventLog::own(&event.map(ended).into_iter().collect::<Vec<_>>());
        let result =
            log.fold(Some("c")).finish(&ResultFacts { run_status, ..facts(CommandType::Turn, state) });
        assert_eq!(
            (&*result.status, result.terminal_source),
            (status, source),
            "{state:?} {event:?} {run_status:?}"
        );
        assert_eq!(result.completed, status == "completed");
        assert_eq!(
            result.terminal_status.map(|status| word(&status)).as_deref(),
            Some(status).filter(|_| { source != TerminalSource::Nothing })
        );
    }
    let without = ResultFacts { command: None, ..facts(CommandType::Turn, State::Running) };
    let result =
        EventLog::own(&[]).fold(None).finish(&ResultFacts { run_status: LoadedRun::Claimed, ..without });
    assert_eq!((&*result.status, result.command_id), ("claimed", None));
}

#[test]
fn what_did_not_complete_says_why() {
    let error = (
        Kind::Error,
        json!({"failureKind": "provider-unavailable", "message": "Bearer abcdefgh1 is refused"}),
    );
    let event = (
        Kind::TerminalStatus,
        json!({"status": "failed", "failureKind": "backend-timeout", "scope": "command"}),
    );
    let of_row = FailureFacts { kind: Some("infra-failed"), message: Some("asked to fail") };
    let table = [
        (vec![], CommandState::Running, of_row, None),
        (vec![error.clone()], CommandState::Running, of_row, None),
        (vec![error.clone()], CommandState::Completed, of_row, None),
        (
            vec![error.clone(), event.clone()],
            CommandState::Failed,
            of_row,
            Some(("infra-failed", Some("asked to fail"))),
        ),
        (
            vec![error.clone(), event.clone()],
            CommandState::Running,
            FailureFacts::default(),
            Some(("backend-timeout", Some("Bearer [redacted] is refused"))),
        ),
        (
            vec![error],
            CommandState::Blocked,
            FailureFacts::default(),
            Some(("provider-unavailable", Some("Bearer [redacted] is refused"))),
        ),
        (vec![], CommandState::Failed, FailureFacts::default(), Some(("backend-failed", None))),
        (vec![], CommandState::Cancelled, FailureFacts::default(), Some(("cancelled", None))),
    ];
    for (events, state, failure, expected) in table {
        let mut facts = facts(CommandType::Turn, state);
        facts.command.as_mut().unwrap().failure = failure;
        let result = EventLog::own(&events).fold(Some("c")).finish(&facts);
        let found =
            result.blocker.as_ref().map(|blocker| (&*blocker.failure_kind, blocker.message.as_deref()));
        assert_eq!(found, expected, "{state:?} {events:?}");
        assert_eq!(result.failure_kind.as_deref(), expected.map(|(kind, _)| kind));
        assert_eq!(result.failure_message.as_deref(), expected.and_then(|(_, message)| message));
    }
    let run = ResultFacts {
        run_status: RunStatus::Failed,
        run_failure: of_row,
        ..facts(CommandType::Turn, CommandState::Running)
    };
    assert_eq!(EventLog::own(&[]).fold(Some("c")).finish(&run).failure_kind.as_deref(), Some("infra-failed"));
}

#[test]
fn the_start_and_the_end_of_a_call_count_once() {
    let call = |payload: Value| (Kind::ToolCall, payload);
    let summary = EventLog::own(&[
        call(json!({"callId": "1", "toolName": "shell", "type": "commandExecution", "status": "inProgress", "command": "ls"})),
        call(json!({"callId": "2", "toolName": "shell", "status": "started"})),
        call(json!({"callId": "1", "status": "completed", "exitCode": 0})),
        call(json!({"callId": "3", "status": "failed", "exitCode": 2, "command": "x".repeat(700), "method": "y".repeat(300)})),
        call(json!({"status": "completed"})),
        call(json!({"status": "completed"})),
    ])
    .result(CommandState::Running)
    .tool_call_summary;
    assert_eq!(summary.count, 5);
    assert_eq!(json!(summary.status_counts), json!({"completed": 3, "failed": 1, "started": 1}));
    assert_eq!(json!(summary.exit_code_counts), json!({"0": 1, "2": 1}));
    assert_eq!(
        json!(summary.items[0]),
        json!({"callId": "1", "method": null, "toolName": "shell", "type": "commandExecution", "status": "completed",
            "exitCode": 0, "command": "ls"})
    );
    let long = &summary.items[2];
    assert_eq!((long.command.as_ref().unwrap().len(), long.method.as_ref().unwrap().len()), (600, 200));
    assert_eq!(
        summary.items.iter().map(|item| item.call_id.as_deref()).collect::<Vec<_>>(),
        [Some("1"), Some("2"), Some("3"), None, None]
    );
}

#[test]
fn the_newest_calls_are_shown_and_all_are_counted() {
    let events: Vec<(Kind, Value)> = (0..1000)
        .flat_map(|call| {
            let event = |status: &str| {
                (Kind::ToolCall, json!({"callId": format!("{call}"), "status": status, "exitCode": call}))
            };
            [event("started"), event("completed")]
        })
        .collect();
    let summary = EventLog::own(&events).result(CommandState::Running).tool_call_summary;
    assert_eq!((summary.count, json!(summary.status_counts)), (1000, json!({"completed": 1000})));
    assert_eq!(summary.exit_code_counts.values().sum::<i64>(), 1000);
    assert!(summary.exit_code_counts.len() <= 65);
    assert_eq!(summary.items.len(), 40);
    assert_eq!(summary.items[39].call_id.as_deref(), Some("999"));
}

#[test]
fn artifacts_are_summed_up() {
    let output = |bytes: i64, cut: bool| {
        (
            Kind::CommandOutput,
            json!({"stream": "stdout", "text": "x", "outputBytes": bytes, "outputTruncated": cut}),
        )
    };
    let mut events = vec![output(i64::MAX, false), output(7, true), (Kind::Diff, json!({}))];
    events.extend((0..30).map(|_| output(0, false)));
    let summary = EventLog::own(&events).result(CommandState::Running).artifact_summary;
    assert_eq!((summary.output_count, summary.output_bytes, summary.diff_count), (32, i64::MAX, 1));
    assert!(summary.output_truncated);
    assert_eq!(summary.seqs, (14..=33).collect::<Vec<i64>>());
}

#[test]
fn a_steer_says_whether_it_was_delivered() {
    let delivery = |backend: bool| {
        (
            Kind::SteerDelivery,
            Some("c"),
            json!({"targetCommandId": "t", "runnerAcked": true, "backendAccepted": backend}),
        )
    };
    let of_target = (Kind::AssistantMessage, Some("t"), json!({"text": "x", "final": true}));
    let table = [
        (vec![], (false, false, None, false)),
        (vec![of_target.clone()], (false, false, None, false)),
        (vec![of_target.clone(), delivery(true)], (true, true, Some("t"), false)),
        (vec![delivery(false), delivery(true), of_target], (true, true, Some("t"), true)),
        (
            vec![delivery(false), (Kind::TerminalStatus, Some("t"), json!({"status": "completed"}))],
            (true, false, Some("t"), false),
        ),
    ];
    for (events, expected) in table {
        let mut facts = facts(CommandType::Steer, CommandState::Completed);
        facts.command.as_mut().unwrap().acknowledged = false;
        let result = EventLog::of(&events).fold(Some("c")).finish(&facts);
        let found = result.steer_delivery.unwrap();
        let shown = (
            found.runner_acked,
            found.backend_accepted,
            found.target_command_id.as_deref(),
            found.target_activity_observed,
        );
        assert_eq!(shown, expected, "{events:?}");
        assert!(found.note.contains("nothing about later output") && result.reply.is_none());
    }
    assert!(EventLog::own(&[]).result(CommandState::Completed).steer_delivery.is_none());
    let mut facts = facts(CommandType::Steer, CommandState::Blocked);
    facts.command.as_mut().unwrap().target_id = Some("t2");
    let found = EventLog::own(&[]).fold(Some("c")).finish(&facts).steer_delivery.unwrap();
    assert_eq!((found.runner_acked, found.target_command_id.as_deref()), (true, Some("t2")));
}

#[test]
fn the_events_say_what_the_command_waits_for() {
    let asked = |id: &str| (Kind::ApprovalRequest, json!({"approvalId": id, "reason": "r"}));
    let answered = |id: &str| (Kind::ApprovalResolved, json!({"approvalId": id, "decision": "accept"}));
    let tool = |status: &str| (Kind::ToolCall, json!({"callId": "1", "status": status}));
    let phase = |phase: &str| (Kind::BackendStatus, json!({ "phase": phase }));
    let output = (Kind::CommandOutput, json!({"stream": "stdout", "text": ""}));
    let table = [
        (vec![], LivenessPhase::WaitingModel),
        (vec![tool("started")], LivenessPhase::WaitingTool),
        (vec![tool("started"), said("a")], LivenessPhase::WaitingTool),
        (vec![tool("started"), tool("completed")], LivenessPhase::IdleAfterTool),
        (vec![tool("started"), tool("completed"), output], LivenessPhase::IdleAfterTool),
        (vec![tool("started"), tool("completed"), said("a")], LivenessPhase::WaitingModel),
        (vec![tool("started"), asked("a")], LivenessPhase::WaitingApproval),
        (vec![asked("a"), asked("b"), answered("a")], LivenessPhase::WaitingApproval),
        (vec![asked("a"), asked("b"), answered("b"), answered("a")], LivenessPhase::WaitingModel),
        (vec![asked("a"), phase("transport-closed")], LivenessPhase::TransportDisconnected),
        (vec![phase("transport_closed"), phase("turn-started")], LivenessPhase::WaitingModel),
    ];
    for (events, phase) in table {
        let result = EventLog::own(&events).result(CommandState::Running);
        assert_eq!(result.liveness.phase, phase, "{events:?}");
        assert_eq!(result.liveness.last_seq, events.len() as i64);
        assert_eq!(result.liveness.last_event_at.is_some(), !events.is_empty());
        assert_eq!(
            EventLog::own(&events).result(CommandState::Failed).liveness.phase,
            LivenessPhase::Terminal
        );
    }
    let closed = EventLog::of(&[(Kind::BackendStatus, None, json!({"phase": "disconnected"}))]);
    assert_eq!(closed.result(CommandState::Running).liveness.phase, LivenessPhase::TransportDisconnected);
}

#[test]
fn a_capped_result_says_where_to_read_on() {
    let capped =
        ResultFacts { last_seq: 90, capped: true, ..facts(CommandType::Turn, CommandState::Running) };
    let result = EventLog::own(&[said("a"), said("b")]).fold(Some("c")).finish(&capped);
    assert_eq!(
        (result.last_seq, result.event_count, result.next_after_seq, result.events_capped),
        (90, 2, 2, true)
    );
}

#[test]
fn what_is_held_does_not_grow_with_the_events() {
    let mut fold = ResultFold::new(None);
    for seq in 1..=20_000 {
        let payload = |kind: &str| match kind {
            "part" => json!({"text": "x".repeat(2000), "itemId": format!("{seq}"), "partial": true}),
            "whole" => json!({"text": "x", "itemId": format!("w{seq}")}),
            "tool" => json!({"callId": format!("{seq}"), "status": format!("started"), "exitCode": seq}),
            _ => json!({"approvalId": format!("{seq}"), "reason": ""}),
        };
        for (kind, name) in [
            (Kind::AssistantMessage, "part"),
            (Kind::AssistantMessage, "whole"),
            (Kind::ToolCall, "tool"),
            (Kind::ApprovalRequest, "approval"),
        ] {
            let payload = payload(name).to_string();
            fold.push(&FoldedEvent {
                seq,
                kind,
                command_id: None,
                attempt_id: None,
                payload: &payload,
                created_at: seq,
            });
        }
    }
    assert!(format!("{fold:?}").len() < 200_000);
    assert!(fold.bytes() < 96_000, "{} bytes", fold.bytes());
    let result = fold.finish(&facts(CommandType::Turn, CommandState::Running));
    assert_eq!((result.tool_call_summary.count, result.tool_call_summary.items.len()), (20_000, 40));
}

/// What one event is: its command, and a message, a call, an output or the end.
#[derive(Clone, Debug)]
enum LogStep {
    Part(u8, String),
    Whole(u8, String, bool),
    Call(u8, bool),
    Output(i64),
}

fn step() -> impl Strategy<Value = (bool, LogStep)> {
    let step = prop_oneof![
        (0..4u8, "[a-z]{0,3}").prop_map(|(item, text)| LogStep::Part(item, text)),
        (0..4u8, "[a-z]{1,3}", prop::bool::weighted(0.1))
            .prop_map(|(item, text, answer)| LogStep::Whole(item, text, answer)),
        (0..6u8, any::<bool>()).prop_map(|(call, ended)| LogStep::Call(call, ended)),
        (0..9i64).prop_map(LogStep::Output),
    ];
    (prop::bool::weighted(0.8), step)
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn the_fold_finds_what_a_look_at_all_events_finds(steps in prop::collection::vec(step(), 0..40)) {
        let events: Vec<_> = steps.iter().map(|(own, step)| {
            let (kind, payload) = match step {
                LogStep::Part(item, text) => part(&item.to_string(), text),
                LogStep::Whole(item, text, true) => answer(&item.to_string(), text),
                LogStep::Whole(item, text, false) => whole(&item.to_string(), text),
                LogStep::Call(call, ended) => {
                    let status = if *ended { "completed" } else { "started" };
                    (Kind::ToolCall, json!({"callId": call.to_string(), "status": status}))
                }
                LogStep::Output(bytes) => (Kind::CommandOutput, json!({"stream": "stdout", "text": "", "outputBytes": bytes})),
            };
            (kind, Some(if *own { "c" } else { "d" }), payload)
        }).collect();
        let result = EventLog::of(&events).result(CommandState::Completed);

        let own: Vec<(i64, &LogStep)> = steps.iter().zip(1..).filter(|((own, _), _)| *own).map(|((_, step), seq)| (seq, step)).collect();
        let wholes = || own.iter().filter_map(|(seq, step)| match step {
            LogStep::Whole(item, text, answer) => Some((*seq, *item, text.clone(), *answer)),
            _ => None,
        });
        let authoritative = wholes().rfind(|(.., answer)| *answer);
        let parts = (0..4u8).filter(|item| wholes().all(|(_, whole, ..)| whole != *item)).map(|item| {
            let of_item = own.iter().filter_map(|(seq, step)| match step {
                LogStep::Part(of, text) if *of == item => Some((*seq, text.clone())),
                _ => None,
            });
            (of_item.clone().map(|(seq, _)| seq).max().unwrap_or(0), of_item.map(|(_, text)| text).collect::<String>())
        });
        let last = wholes().map(|(seq, _, text, _)| (seq, text)).chain(parts).filter(|(_, text)| !text.is_empty()).max();
        let expected = authoritative.map(|(seq, _, text, _)| (seq, text)).or(last);
        prop_assert_eq!(result.final_response.map(|found| (found.seq, found.text)), expected);

        let calls: std::collections::BTreeMap<u8, bool> = own.iter().filter_map(|(_, step)| match step {
            LogStep::Call(call, ended) => Some((*call, *ended)),
            _ => None,
        }).collect();
        prop_assert_eq!(result.tool_call_summary.count, calls.len() as i64);
        let ended = calls.values().filter(|ended| **ended).count() as i64;
        prop_assert_eq!(result.tool_call_summary.status_counts.get("completed").copied().unwrap_or(0), ended);
        let bytes: i64 = own.iter().map(|(_, step)| if let LogStep::Output(bytes) = step { *bytes } else { 0 }).sum();
        prop_assert_eq!(result.artifact_summary.output_bytes, bytes);
        prop_assert_eq!((result.event_count, result.scoped_event_count), (steps.len() as i64, own.len() as i64));
    }
}
