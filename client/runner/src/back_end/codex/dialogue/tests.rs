use super::*;
use crate::back_end::BackEndQuestion;

/// A dialogue, with what is said in it.
struct TestDialogue {
    dialogue: CodexDialogue,
    now: Instant,
}

impl TestDialogue {
    fn new(thread_id: Option<&str>) -> TestDialogue {
        let dialogue = CodexDialogue::new(json!({ "cwd": "/w" }), thread_id.map(str::to_owned));
        TestDialogue { dialogue, now: Instant::now() }
    }

    /// Up to the turn `u` of the thread `t`.
    fn begun() -> TestDialogue {
        let mut test = TestDialogue::new(None);
        test.begin();
        test.hear(json!({ "id": 1, "result": {} }));
        test.hear(json!({ "id": 2, "result": { "thread": { "id": "t" } } }));
        test.hear(json!({ "id": 3, "result": { "turn": { "id": "u" } } }));
        assert_eq!(test.told(), ["initialize", "initialized", "thread/start", "turn/start"]);
        assert_eq!(test.events(), [BackEndEvent::Thread { thread_id: "t".to_owned() }]);
        test
    }

    fn begin(&mut self) {
        let turn = TurnRequest { command_id: "cmd_1".to_owned(), ..TurnRequest::default() };
        self.dialogue.begin(turn, self.now);
    }

    fn hear(&mut self, line: Value) {
        self.dialogue.hear(line.to_string().as_bytes(), self.now).unwrap();
    }

    fn notice(&mut self, method: &str, mut params: Value) {
        params["threadId"] = "t".into();
        if params["turn"].is_null() {
            params["turnId"] = "u".into();
        }
        self.hear(json!({ "method": method, "params": params }));
    }

    /// The methods that Codex is told.
    fn told(&mut self) -> Vec<String> {
        let lines = self.dialogue.take_lines();
        lines.iter().filter_map(|line| line["method"].as_str()).map(str::to_owned).collect()
    }

    fn events(&mut self) -> Vec<BackEndEvent> {
        std::iter::from_fn(|| self.dialogue.next_event()).collect()
    }

    fn end(&mut self) -> TurnEnd {
        match self.events().pop() {
            Some(BackEndEvent::Ended(end)) => end,
            other => panic!("{other:?}"),
        }
    }

    fn completed(&mut self, status: &str, error: Value) {
        self.notice("turn/completed", json!({ "turn": { "id": "u", "status": status, "error": error } }));
    }

    /// The question of a request.
    fn question(&mut self, id: i64) -> BackEndQuestion {
        let params = json!({ "threadId": "t", "turnId": "u", "itemId": "c", "command": "ls" });
        self.hear(json!({ "id": id, "method": "item/commandExecution/requestApproval", "params": params }));
        match self.events().pop() {
            Some(BackEndEvent::Asked(question)) => question,
            other => panic!("{other:?}"),
        }
    }
}

fn interrupted() -> TurnEnd {
    TurnEnd { status: TurnStatus::Interrupted, ..TurnEnd::completed() }
}

#[test]
fn each_status_of_a_turn_is_its_end() {
    let error = json!({ "message": "no", "codexErrorInfo": "unauthorized" });
    for (status, error, end) in [
        ("completed", Value::Null, TurnEnd::completed()),
        ("interrupted", Value::Null, interrupted()),
        ("failed", error, TurnEnd::failed("provider-auth-failed", "no")),
        ("of tomorrow", Value::Null, TurnEnd::failed("backend-failed", "codex failed without a reason")),
    ] {
        let mut test = TestDialogue::begun();
        test.completed(status, error);
        assert_eq!(test.end(), end);
        test.begin();
        assert_eq!(test.told(), ["turn/start"], "the thread is there");
    }
}

#[test]
fn what_is_of_another_turn_or_thread_is_no_event() {
    let mut test = TestDialogue::begun();
    let delta = |thread: &str, turn: &str| {
        let params = json!({ "threadId": thread, "turnId": turn, "itemId": "m", "delta": "a" });
        json!({ "method": "item/agentMessage/delta", "params": params })
    };
    for (thread, turn) in [("t", "of before"), ("of an agent", "u")] {
        test.hear(delta(thread, turn));
    }
    test.hear(json!({ "method": "of/tomorrow" }));
    assert_eq!(test.events(), []);
    test.hear(delta("t", "u"));
    assert_eq!(test.events().len(), 1);
}

#[test]
fn a_thread_of_the_session_is_resumed() {
    for (message, kind) in [
        ("no rollout found for thread id t", "session-store-evicted"),
        ("invalid session id: t", "thread-resume-failed"),
    ] {
        let mut test = TestDialogue::new(Some("t"));
        test.begin();
        test.hear(json!({ "id": 1, "result": {} }));
        assert_eq!(test.told(), ["initialize", "initialized", "thread/resume"]);
        test.hear(json!({ "id": 2, "error": { "code": -32600, "message": message } }));
        let end = test.end();
        assert_eq!(end.failure_kind.as_deref(), Some(kind));
        assert!(end.message.unwrap().ends_with(message));
        assert_eq!(test.dialogue.thread_id(), Some("t"), "no other thread is begun instead");
    }
}

#[test]
fn what_codex_refuses_at_the_beginning_ends_the_turn() {
    for answers in 0..3 {
        let mut test = TestDialogue::new(None);
        test.begin();
        for (id, result) in
            [(1, json!({})), (2, json!({ "thread": { "id": "t" } }))].into_iter().take(answers)
        {
            test.hear(json!({ "id": id, "result": result }));
        }
        test.hear(json!({ "id": answers + 1, "error": { "code": -32600, "message": "no config" } }));
        assert_eq!(test.end(), TurnEnd::failed("backend-failed", "codex refuses the turn: no config"));
    }
}

#[test]
fn an_interrupt_reaches_a_turn_in_every_state() {
    let mut test = TestDialogue::new(None);
    test.begin();
    test.dialogue.interrupt(test.now);
    assert_eq!(test.end(), interrupted(), "codex does not know it");
    test.hear(json!({ "id": 1, "result": {} }));
    test.begin();
    test.hear(json!({ "id": 2, "result": { "thread": { "id": "t" } } }));
    test.dialogue.interrupt(test.now);
    assert_eq!(test.told(), ["initialize", "initialized", "thread/start", "turn/start"]);
    test.hear(json!({ "id": 3, "result": { "turn": { "id": "u" } } }));
    assert_eq!(test.told(), ["turn/interrupt"]);
    test.hear(json!({ "id": 4, "error": { "message": "it has ended" } }));
    test.completed("interrupted", Value::Null);
    assert_eq!(test.end(), interrupted());
    test.dialogue.interrupt(test.now);
    assert!(test.told().is_empty());
}

#[test]
fn a_question_is_answered_once_and_not_after_codex_has_resolved_it() {
    let mut test = TestDialogue::begun();
    let answer = |question: &BackEndQuestion| ApprovalAnswer {
        approval_id: question.approval_id.clone(),
        decision: "accept".to_owned(),
        payload: None,
    };
    let question = test.question(0);
    test.dialogue.answer(&answer(&question));
    assert_eq!(test.dialogue.take_lines(), [json!({ "id": 0, "result": { "decision": "accept" } })]);
    test.dialogue.answer(&answer(&question));
    let resolved = test.question(1);
    test.hear(json!({ "method": "serverRequest/resolved", "params": { "threadId": "t", "requestId": 1 } }));
    test.dialogue.answer(&answer(&resolved));
    assert!(test.dialogue.take_lines().is_empty());
}

#[test]
fn requests_that_no_runner_knows_are_refused_and_told() {
    let mut test = TestDialogue::begun();
    test.hear(json!({ "id": "x", "method": "item/tool/call", "params": {} }));
    let lines = test.dialogue.take_lines();
    assert_eq!((&lines[0]["id"], &lines[0]["error"]["code"]), (&json!("x"), &json!(-32601)));
    assert_eq!(test.events(), [BackEndEvent::Refused { method: "item/tool/call".to_owned() }]);
    (0..64).for_each(|id| drop(test.question(id)));
    let params = json!({ "threadId": "t", "turnId": "u", "command": "ls" });
    test.hear(json!({ "id": 64, "method": "item/commandExecution/requestApproval", "params": params }));
    assert!(matches!(test.events()[..], [BackEndEvent::Refused { .. }]), "there are too many");
}

#[test]
fn a_provider_that_cannot_be_reached_ends_the_turn_after_a_while() {
    let info = json!({ "responseStreamDisconnected": { "httpStatusCode": null } });
    let error = json!({ "message": "Reconnecting", "codexErrorInfo": info, "additionalDetails": "refused" });
    let mut test = TestDialogue::begun();
    let begun = test.now;
    test.notice("error", json!({ "error": error, "willRetry": true }));
    assert_eq!(test.dialogue.due_at(), Some(begun + UNREACHABLE_FOR));
    // It is there again.
    test.notice("item/agentMessage/delta", json!({ "itemId": "m", "delta": "a" }));
    assert_eq!(test.dialogue.due_at(), None);
    test.events();

    test.notice("error", json!({ "error": error, "willRetry": true }));
    test.dialogue.tick(begun + UNREACHABLE_FOR / 2).unwrap();
    assert!(test.events().is_empty() && test.told().is_empty());
    test.dialogue.tick(begun + UNREACHABLE_FOR).unwrap();
    let message = "the provider cannot be reached: refused".to_owned();
    let failure_kind = "provider-unavailable".to_owned();
    assert_eq!(test.events(), [BackEndEvent::Error { failure_kind, message: message.clone() }]);
    assert_eq!(test.told(), ["turn/interrupt"]);
    test.completed("interrupted", Value::Null);
    assert_eq!(test.end(), TurnEnd::failed("provider-unavailable", message));
}

#[test]
fn a_failure_is_told_when_codex_does_not_try_again() {
    let error = |status: u64| json!({ "message": "no", "codexErrorInfo": { "httpConnectionFailed": { "httpStatusCode": status } } });
    let mut test = TestDialogue::begun();
    test.notice("error", json!({ "error": error(500), "willRetry": true }));
    assert_eq!((test.events(), test.dialogue.due_at()), (Vec::new(), None));
    test.notice("error", json!({ "error": error(401), "willRetry": false }));
    let event =
        BackEndEvent::Error { failure_kind: "provider-auth-failed".to_owned(), message: "no".to_owned() };
    assert_eq!(test.events(), [event]);
}

#[test]
fn a_codex_that_does_not_answer_is_of_no_use() {
    let mut test = TestDialogue::new(None);
    test.begin();
    assert_eq!(test.dialogue.due_at(), Some(test.now + ANSWER_WITHIN));
    let late = test.dialogue.tick(test.now + ANSWER_WITHIN).unwrap_err();
    assert_eq!(late, "codex has not answered within 60 s");
}

#[test]
fn plans_and_new_diffs_are_told() {
    let mut test = TestDialogue::begun();
    let steps = json!([{ "step": "one", "status": "pending" }]);
    test.notice("turn/plan/updated", json!({ "explanation": null, "plan": steps }));
    assert_eq!(test.events(), [BackEndEvent::Plan(json!({ "explanation": null, "steps": steps }))]);
    for (diff, many) in [("", 0), ("+a", 1), ("+a", 0), ("+b", 1)] {
        test.notice("turn/diff/updated", json!({ "diff": diff }));
        assert_eq!(test.events().len(), many, "{diff}");
    }
}

#[test]
fn the_output_of_a_command_is_said_once() {
    let mut test = TestDialogue::begun();
    let item = json!({
        "type": "commandExecution", "id": "c", "command": "ls", "status": "completed", "aggregatedOutput": "a\n",
    });
    test.notice("item/started", json!({ "item": item }));
    test.notice("item/commandExecution/outputDelta", json!({ "itemId": "c", "delta": "a\n" }));
    test.notice("item/completed", json!({ "item": item }));
    let written = |event: &&BackEndEvent| matches!(event, BackEndEvent::Written { .. });
    assert_eq!(test.events().iter().filter(written).count(), 1);
}
