//! What is decided, as words: news in, actions out.

mod attachments;

use super::*;
use crate::back_end::{BackEndQuestion, TurnEnd, TurnStatus};
use crate::manager::{RunNews, WorkOver, WorkSignal};
use crate::test_commands::command;
use proto_schemas::requests::run::RunApproval;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);
const IDLE: Duration = Duration::from_secs(30);

/// A runner with the lease of epoch 2, and the time that passes for it.
struct TestWork {
    state: WorkState,
    now: Instant,
}

impl TestWork {
    fn new() -> TestWork {
        TestWork::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut WorkRules)) -> TestWork {
        let now = Instant::now();
        let mut rules =
            WorkRules { epoch: 2, timeout: TIMEOUT, idle: IDLE, started_for: None, passes_questions: true };
        change(&mut rules);
        TestWork { state: WorkState::new(rules, now), now }
    }

    /// The actions since the last time, each as a few words.
    fn actions(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.state.next_action()).map(|action| words(&action)).collect()
    }

    fn hear(&mut self, signal: WorkSignal) -> Vec<String> {
        self.state.hear(signal, self.now);
        self.actions()
    }

    fn polled(&mut self, commands: Vec<CommandRecord>) -> Vec<String> {
        self.hear(WorkSignal::Polled { commands, news: RunNews::default() })
    }

    fn taken(&mut self, command: CommandRecord) -> Vec<String> {
        self.hear(WorkSignal::Acknowledged { command: Box::new(command) })
    }

    fn cancel(&mut self, id: &str) -> Vec<String> {
        let news = RunNews { cancel: vec![id.to_owned()], answers: Vec::new() };
        self.hear(WorkSignal::Renewed { news })
    }

    fn happened(&mut self, event: &BackEndEvent) -> Vec<String> {
        self.state.happened(event, self.now);
        self.actions()
    }

    fn ended(&mut self, end: TurnEnd) -> Vec<String> {
        self.happened(&BackEndEvent::Ended(end))
    }

    fn after(&mut self, time: Duration, is_told: bool) -> Vec<String> {
        self.now += time;
        self.state.tick(self.now, is_told);
        self.actions()
    }

    /// The first turn is under way.
    fn working() -> TestWork {
        let mut work = TestWork::new();
        assert_eq!(work.polled(vec![turn(1)]), ["take cmd_1"]);
        assert_eq!(work.taken(turn(1)), ["begin cmd_1: hello"]);
        work
    }
}

fn turn(seq: i64) -> CommandRecord {
    command(seq, "turn", json!({ "prompt": "hello" }))
}

fn steer(seq: i64) -> CommandRecord {
    command(seq, "steer", json!({ "prompt": "left" }))
}

fn of_earlier(mut command: CommandRecord) -> CommandRecord {
    command.acknowledged_epoch = Some(1);
    command
}

fn question(id: &str) -> BackEndEvent {
    let question = BackEndQuestion { approval_id: id.to_owned(), ..BackEndQuestion::default() };
    BackEndEvent::Asked(question)
}

fn answer(id: &str, decision: &str) -> RunApproval {
    let answer = json!({
        "approvalId": id, "runId": "run_1", "commandId": "cmd_1", "reason": "", "message": null, "callId": null,
        "responseSchema": null, "options": [], "decision": decision, "payload": { "a": 1 }, "by": "operator",
        "createdAt": "", "expiresAt": null,
    });
    serde_json::from_str(&answer.to_string()).unwrap()
}

fn interrupted() -> TurnEnd {
    TurnEnd { status: TurnStatus::Interrupted, ..TurnEnd::completed() }
}

fn words(action: &WorkAction) -> String {
    let end = |report: &TurnReport| {
        let status = format!("{:?}", report.status).to_lowercase();
        report.failure_kind.as_ref().map_or(status.clone(), |kind| format!("{status} {kind}"))
    };
    match action {
        WorkAction::Acknowledge { command_id } => format!("take {command_id}"),
        WorkAction::Fetch { command_id, attachments } => {
            let ids: Vec<&str> = attachments.iter().map(|attachment| attachment.id.as_str()).collect();
            format!("fetch for {command_id}: {}", ids.join(" "))
        }
        WorkAction::Begin(turn) if turn.images.is_empty() => {
            format!("begin {}: {}", turn.command_id, turn.text)
        }
        WorkAction::Begin(turn) => {
            format!("begin {}: {} with {}", turn.command_id, turn.text, turn.images.len())
        }
        WorkAction::AskPast { command_id } => format!("ask what became of {command_id}"),
        WorkAction::Steer { command_id, target, text } => format!("steer {target} by {command_id}: {text}"),
        WorkAction::Interrupt => "interrupt".to_owned(),
        WorkAction::StopBackEnd => "stop the back end".to_owned(),
        WorkAction::Answer(answer) => format!("answer {}: {}", answer.approval_id, answer.decision),
        WorkAction::Append { command_id, kind, payload } => {
            let of: Vec<&str> = ["decision", "by", "backendAccepted", "text"]
                .into_iter()
                .filter_map(|name| payload.get(name).map(|value| value.as_str().unwrap_or("is")))
                .collect();
            let id = command_id.as_deref().unwrap_or_default();
            format!("log {kind:?} of {id}: {}", of.join(" "))
        }
        WorkAction::Finish { command_id, report: Some(report), .. } => {
            format!("end {command_id}: {}", end(report))
        }
        WorkAction::Finish { command_id, report: None, .. } => format!("forget the rest of {command_id}"),
        WorkAction::Report { command_id, report } => format!("report {command_id}: {}", end(report)),
        WorkAction::Forget { command_id } => format!("say nothing of {command_id}"),
        WorkAction::Check => "check".to_owned(),
        WorkAction::Release => "release".to_owned(),
        WorkAction::End(end) => format!("end: {end:?}"),
    }
}

#[test]
fn turns_are_taken_one_after_the_other() {
    let mut work = TestWork::new();
    assert_eq!(work.polled(vec![turn(1), turn(2)]), ["take cmd_1"]);
    assert_eq!(work.taken(turn(1)), ["begin cmd_1: hello"]);
    assert!(work.polled(vec![turn(3)]).is_empty());
    assert_eq!(work.ended(TurnEnd::completed()), ["end cmd_1: completed", "take cmd_2"]);
    assert_eq!(work.taken(turn(2)), ["begin cmd_2: hello"]);
    assert_eq!(
        work.ended(TurnEnd::failed("provider-unavailable", "m")),
        ["end cmd_2: failed provider-unavailable", "take cmd_3"]
    );
}

#[test]
fn a_payload_that_is_no_turn_fails() {
    let mut work = TestWork::new();
    let odd = command(1, "turn", json!({ "prompt": "x", "context": 7 }));
    assert_eq!(work.polled(vec![odd.clone()]), ["take cmd_1"]);
    assert_eq!(work.taken(odd), ["end cmd_1: failed schema-invalid"]);
}

#[test]
fn guidance_is_for_the_turn_under_way() {
    let mut work = TestWork::new();
    assert_eq!(work.polled(vec![turn(1), steer(2)]), ["take cmd_1", "take cmd_2"]);
    assert_eq!(work.taken(turn(1)), ["begin cmd_1: hello"]);
    assert_eq!(work.taken(steer(2)), ["steer cmd_1 by cmd_2: left"]);
    work.state.steered("cmd_2".to_owned(), "cmd_1", Ok(()));
    assert_eq!(work.actions(), ["log SteerDelivery of cmd_2: is", "report cmd_2: completed"]);
    work.state.steered("cmd_3".to_owned(), "cmd_1", Err(BackEndError::failed("too late")));
    assert_eq!(work.actions(), ["log SteerDelivery of cmd_3: is", "report cmd_3: blocked backend-failed"]);
    assert_eq!(work.ended(TurnEnd::completed()), ["end cmd_1: completed"]);
    assert_eq!(work.polled(vec![steer(4)]), ["take cmd_4"]);
    assert_eq!(work.taken(steer(4)), ["report cmd_4: blocked backend-failed"]);
}

#[test]
fn an_interrupt_ends_the_turn_under_way() {
    let mut work = TestWork::working();
    let interrupt = || command(2, "interrupt", json!({}));
    assert_eq!(work.polled(vec![interrupt()]), ["take cmd_2"]);
    assert_eq!(work.taken(interrupt()), ["interrupt", "report cmd_2: completed"]);
    assert_eq!(work.ended(TurnEnd::failed("cancelled", "m")), ["end cmd_1: failed cancelled"]);
    let again = || command(3, "interrupt", json!({}));
    assert_eq!(work.polled(vec![again()]), ["take cmd_3"]);
    assert_eq!(work.taken(again()), ["report cmd_3: blocked backend-failed"]);
}

#[test]
fn a_cancelled_turn_is_interrupted_and_at_last_ended() {
    let mut work = TestWork::working();
    assert!(work.cancel("cmd_9").is_empty());
    assert_eq!(work.cancel("cmd_1"), ["interrupt"]);
    assert!(work.cancel("cmd_1").is_empty(), "it is told until it is done");
    assert!(work.after(INTERRUPT_GRACE / 2, true).is_empty());
    assert_eq!(work.after(INTERRUPT_GRACE, true), ["stop the back end"]);
    assert!(work.after(INTERRUPT_GRACE, true).is_empty());
    assert_eq!(work.ended(interrupted()), ["end cmd_1: cancelled cancelled"]);
}

#[test]
fn a_turn_that_was_cancelled_while_it_was_taken_does_not_begin() {
    let mut work = TestWork::new();
    assert_eq!(work.polled(vec![turn(1), turn(2)]), ["take cmd_1"]);
    assert!(work.cancel("cmd_1").is_empty());
    assert_eq!(work.taken(turn(1)), ["end cmd_1: cancelled cancelled", "take cmd_2"]);
    // Before this runner could take it, it was cancelled at once.
    let over = WorkSignal::CommandOver { command_id: "cmd_2".to_owned() };
    assert_eq!(work.hear(over), ["say nothing of cmd_2", "check"]);
    assert!(work.state.turn.is_none());
}

#[test]
fn the_time_of_a_turn_is_limited() {
    let mut work = TestWork::working();
    assert!(work.after(TIMEOUT / 2, true).is_empty());
    assert!(work.state.due_at().is_some_and(|due| due == work.now + TIMEOUT / 2));
    assert_eq!(work.after(TIMEOUT / 2, true), ["interrupt"]);
    assert_eq!(work.after(INTERRUPT_GRACE, true), ["stop the back end"]);
    assert_eq!(work.ended(interrupted()), ["end cmd_1: failed backend-timeout"]);
}

#[test]
fn an_answer_is_given_once_and_recorded() {
    let mut work = TestWork::working();
    assert!(work.happened(&question("q")).is_empty());
    let answers = |id: &str, decision: &str| WorkSignal::Renewed {
        news: RunNews { cancel: Vec::new(), answers: vec![answer(id, decision)] },
    };
    assert!(work.hear(answers("of another turn", "accept")).is_empty());
    assert_eq!(
        work.hear(answers("q", "accept")),
        ["log ApprovalResolved of cmd_1: accept operator", "answer q: accept"]
    );
    assert!(work.hear(answers("q", "accept")).is_empty());
    work.happened(&question("r"));
    let news = RunNews { cancel: vec!["cmd_1".to_owned()], answers: vec![answer("r", "cancel")] };
    assert_eq!(
        work.hear(WorkSignal::Renewed { news }),
        ["log ApprovalResolved of cmd_1: cancel operator", "answer r: cancel", "interrupt"]
    );
}

#[test]
fn where_nobody_may_be_asked_a_question_is_declined_at_once() {
    let mut work = TestWork::with(|rules| rules.passes_questions = false);
    work.polled(vec![turn(1)]);
    work.taken(turn(1));
    assert_eq!(
        work.happened(&question("q")),
        ["log ApprovalResolved of cmd_1: decline policy", "answer q: decline"]
    );
}

#[test]
fn nothing_is_run_twice() {
    let mut work = TestWork::new();
    let commands = vec![of_earlier(turn(1)), of_earlier(steer(2)), turn(3)];
    assert_eq!(
        work.polled(commands),
        ["ask what became of cmd_1", "report cmd_2: failed backend-failed", "take cmd_3"]
    );
    work.state.past_turn("cmd_1".to_owned(), PastTurn::NotProven { why: "m".to_owned() });
    assert_eq!(work.actions(), ["report cmd_1: failed backend-failed"]);
    work.state.past_turn("cmd_1".to_owned(), PastTurn::Completed { reply: Some("done".to_owned()) });
    assert_eq!(work.actions(), ["log AssistantMessage of cmd_1: done", "report cmd_1: completed"]);
}

#[test]
fn what_the_manager_refuses_ends_the_turn() {
    let mut work = TestWork::working();
    let refused =
        |id: &str| WorkSignal::EventRefused { command_id: Some(id.to_owned()), why: "too large".to_owned() };
    assert!(work.hear(refused("cmd_9")).is_empty());
    assert_eq!(work.hear(refused("cmd_1")), ["interrupt"]);
    assert_eq!(work.ended(TurnEnd::completed()), ["end cmd_1: failed backend-failed"]);
    // It has ended without us, long after its time for instance.
    let mut work = TestWork::working();
    let over = WorkSignal::CommandOver { command_id: "cmd_1".to_owned() };
    assert_eq!(work.hear(over), ["say nothing of cmd_1", "check", "stop the back end"]);
    assert_eq!(work.ended(interrupted()), ["forget the rest of cmd_1"]);
}

#[test]
fn a_runner_without_work_leaves_when_all_is_told() {
    let mut work = TestWork::new();
    assert!(work.after(IDLE * 2, true).is_empty(), "it has not heard yet whether there is work");
    assert!(work.polled(Vec::new()).is_empty());
    assert!(work.after(IDLE / 2, true).is_empty());
    assert!(work.after(IDLE / 2, false).is_empty());
    assert!(work.after(IDLE / 2, true).is_empty());
    assert_eq!(work.after(IDLE, true), ["release"]);
    assert!(work.after(IDLE, true).is_empty());
    // A command has come meanwhile.
    assert!(work.hear(WorkSignal::Released { is_released: false }).is_empty());
    assert_eq!(work.polled(vec![turn(1)]), ["take cmd_1"]);
    work.taken(turn(1));
    assert!(work.after(IDLE, true).is_empty());
    work.ended(TurnEnd::completed());
    assert_eq!(work.after(IDLE, true), ["release"]);
    assert!(work.hear(WorkSignal::Over(WorkOver::LeaseLost)).is_empty(), "the poll hears of it first");
    assert_eq!(work.hear(WorkSignal::Released { is_released: true }), ["end: Released"]);
}

#[test]
fn a_runner_that_was_started_for_a_command_that_has_ended_leaves_at_once() {
    let mut work = TestWork::with(|rules| rules.started_for = Some("cmd_1".to_owned()));
    work.polled(Vec::new());
    assert_eq!(work.after(Duration::ZERO, true), ["release"]);
    let mut work = TestWork::with(|rules| rules.started_for = Some("cmd_1".to_owned()));
    assert_eq!(work.polled(vec![turn(1)]), ["take cmd_1"]);
    work.taken(turn(1));
    work.ended(TurnEnd::completed());
    assert!(work.after(IDLE / 2, true).is_empty(), "more may come");
}

#[test]
fn a_runner_that_is_told_to_end_says_how_its_turn_ended() {
    let mut work = TestWork::working();
    work.polled(vec![turn(2)]);
    work.state.stop(work.now);
    assert_eq!(work.actions(), ["stop the back end"]);
    assert_eq!(work.ended(interrupted()), ["end cmd_1: failed infra-failed"]);
    assert!(work.after(Duration::ZERO, false).is_empty());
    assert_eq!(work.after(Duration::ZERO, true), ["release"]);
    assert_eq!(work.hear(WorkSignal::Released { is_released: false }), ["end: Stopped"]);
    // Nobody answers.
    let mut work = TestWork::new();
    work.state.stop(work.now);
    work.actions();
    assert_eq!(work.after(STOP_GRACE, false), ["end: Stopped"]);
}

#[test]
fn the_end_of_the_run_and_the_loss_of_the_lease_end_the_work() {
    let mut work = TestWork::working();
    assert_eq!(work.hear(WorkSignal::RunEnded), ["end: RunEnded"]);
    let mut work = TestWork::working();
    assert_eq!(work.hear(WorkSignal::Over(WorkOver::LeaseLost)), ["end: Over(LeaseLost)"]);
}

#[test]
fn commands_that_wait_are_limited_in_bytes() {
    let mut work = TestWork::working();
    let large = |seq| command(seq, "turn", Value::from_iter([("prompt", "x".repeat(512 << 10))]));
    work.polled((2..12).map(large).collect());
    assert!(!work.state.wants_commands());
    for _ in 0..4 {
        work.ended(TurnEnd::completed());
    }
    assert!(work.state.wants_commands());
}
