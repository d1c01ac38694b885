use super::*;

const INTERRUPTED: &str =
    r#"RUN_FINISHED r {"interrupts":[{"id":"q2","reason":"example"}],"type":"interrupt"}"#;

#[test]
fn a_question_ends_the_run_and_its_answer_begins_the_next() {
    let events = [
        partial("m", "a"),
        asked("q2"),
        asked("q2"),
        partial("m", "b"),
        answered("q2"),
        whole("m", "abc"),
        last("m", "abc"),
        ended("completed"),
    ];
    let frames = frames(&events);
    let shown: Vec<String> = frames.iter().map(text).collect();
    assert_eq!(
        shown[4..],
        [
            "TEXT_MESSAGE_START m",
            "TEXT_MESSAGE_CONTENT m a",
            "TEXT_MESSAGE_END m",
            "STEP_FINISHED worker",
            INTERRUPTED,
            "RUN_STARTED r2",
            "STEP_STARTED worker",
            "TEXT_MESSAGE_START m-2",
            "TEXT_MESSAGE_CONTENT m-2 b",
            "TEXT_MESSAGE_CONTENT m-2 c",
            r#"TEXT_MESSAGE_END m-2 {"agentrun":{"status":"completed"}}"#,
            "STEP_FINISHED worker",
            "RUN_FINISHED r2",
        ]
    );
    let ids: Vec<String> = frames.iter().map(|frame| frame.id.to_string()).collect();
    assert_eq!(ids[6..13], ["2-0", "2-1", "2-2", "5-0", "5-1", "5-2", "5-3"]);
    let runs: Vec<&str> = frames.iter().map(|frame| frame.run_id.as_str()).collect();
    assert_eq!((runs[8], runs[9], frames[8].ends_run, frames[9].ends_run), ("r", "r2", true, false));
}

#[test]
fn each_part_of_a_message_has_an_id_of_its_own() {
    let events = [
        partial("m", "a"),
        asked("q2"),
        answered("q2"),
        partial("m", "b"),
        asked("q3"),
        answered("q3"),
        whole("m", "abc"),
    ];
    let shown = shown(&events);
    let texts: Vec<_> = shown.iter().filter(|frame| frame.starts_with("TEXT_MESSAGE_CONTENT")).collect();
    let expected = ["TEXT_MESSAGE_CONTENT m a", "TEXT_MESSAGE_CONTENT m-2 b", "TEXT_MESSAGE_CONTENT m-3 c"];
    assert_eq!(texts, expected);
}

#[test]
fn an_interrupt_says_what_the_question_says() {
    let question = json!({
        "approvalId": "q2", "reason": "tool", "message": "May I?", "callId": "k", "expiresAt": "2026-01-01T00:00:00Z",
        "responseSchema": { "type": "object" }, "options": ["accept", "decline"],
    });
    let events = [call("k", "failed"), call("k", "started"), event("c", "approval_request", &question)];
    let finished = serde_json::from_str::<Value>(&frames(&events).last().unwrap().data).unwrap();
    assert_eq!(
        finished["outcome"]["interrupts"],
        json!([{
            "id": "q2", "reason": "tool", "message": "May I?", "toolCallId": "k-2", "expiresAt": "2026-01-01T00:00:00Z",
            "responseSchema": { "type": "object" }, "metadata": { "agentrun": { "options": ["accept", "decline"] } },
        }])
    );
}

#[test]
fn a_run_goes_on_when_every_question_is_answered() {
    let events = [
        asked("q2"),
        asked("q3"),
        partial("m", "a"),
        answered("q2"),
        answered("q2"),
        answered("q4"),
        answered("q3"),
        partial("m", "b"),
    ];
    let both = concat!(
        r#"RUN_FINISHED r {"interrupts":[{"id":"q2","reason":"example"},"#,
        r#"{"id":"q3","reason":"example"}],"type":"interrupt"}"#
    );
    let shown = shown(&events);
    assert_eq!(shown[..5], ["RUN_STARTED r", INTERRUPTED, "RUN_STARTED r", both, "RUN_STARTED r3"]);
    assert_eq!(shown[8..], ["TEXT_MESSAGE_START m", "TEXT_MESSAGE_CONTENT m a", "TEXT_MESSAGE_CONTENT m b"]);
}

#[test]
fn an_answer_that_came_in_another_way_continues_the_run_that_asked() {
    let events =
        [asked("other"), answered("other"), asked("q2"), answered("q2"), asked("q2"), answered("q2")];
    let shown = shown(&events);
    let begun: Vec<_> = shown.iter().filter(|frame| frame.starts_with("RUN_STARTED")).collect();
    assert_eq!(begun, ["RUN_STARTED r", "RUN_STARTED r", "RUN_STARTED r2", "RUN_STARTED r2"]);
}

#[test]
fn a_part_may_be_learned_while_a_command_waits() {
    let mut fold = ThreadFold::with_plain_names("t", 0);
    fold.learn("c", vec![part("r")]);
    push(&mut fold, &asked("q"), 1);
    fold.learn("c", vec![part("r"), answering("s", &["q"])]);
    let frames = push(&mut fold, &answered("q"), 2);
    assert_eq!(frames.iter().map(text).collect::<Vec<_>>(), ["RUN_STARTED s"]);
}

#[test]
fn a_command_that_ends_while_it_waits_ends_as_far_as_it_can() {
    let table: [(&str, &str, &[&str]); 6] = [
        ("q", "failed", &["RUN_ERROR backend-failed backend-failed"]),
        ("q", "blocked", &["RUN_ERROR blocked blocked"]),
        ("q", "cancelled", &["RUN_ERROR RUN_CANCELED run canceled by user"]),
        // Somebody has answered, but nobody heard it.
        (
            "q2",
            "cancelled",
            &[
                "RUN_STARTED r2",
                "STEP_STARTED router",
                "STEP_FINISHED router",
                "STEP_STARTED worker",
                "TEXT_MESSAGE_START m",
                "TEXT_MESSAGE_CONTENT m a",
                "TEXT_MESSAGE_END m",
                "STEP_FINISHED worker",
                "RUN_ERROR RUN_CANCELED run canceled by user",
            ],
        ),
        (
            "q",
            "completed",
            &[
                "RUN_STARTED r",
                "STEP_STARTED router",
                "STEP_FINISHED router",
                "STEP_STARTED worker",
                "TEXT_MESSAGE_START m",
                "TEXT_MESSAGE_CONTENT m a",
                r#"TEXT_MESSAGE_END m {"agentrun":{"status":"completed"}}"#,
                "STEP_FINISHED worker",
                "RUN_FINISHED r",
            ],
        ),
        ("q", "?", &[]),
    ];
    for (question, status, expected) in table {
        let events = [asked(question), partial("m", "a"), ended(status)];
        assert_eq!(shown_in_run(&events)[1..], *expected, "{status}");
    }
}
