use super::*;

#[test]
fn a_command_ends_as_the_log_says() {
    let end = |payload: Value| event("c", "terminal_status", &payload);
    let wrong = || event("c", "error", &json!({ "failureKind": "x", "message": "it broke" }));
    let table: [(&[TestEvent], &str); 8] = [
        (&[ended("completed")], "RUN_FINISHED r"),
        (&[ended("cancelled")], "RUN_ERROR RUN_CANCELED run canceled by user"),
        (&[ended("failed")], "RUN_ERROR backend-failed backend-failed"),
        (&[ended("blocked")], "RUN_ERROR blocked blocked"),
        (&[end(json!({ "status": "failed", "failureKind": "time-out" }))], "RUN_ERROR time-out time-out"),
        (
            &[wrong(), end(json!({ "status": "failed", "failureKind": "k", "message": "asked to fail" }))],
            "RUN_ERROR k asked to fail",
        ),
        (&[wrong(), ended("failed")], "RUN_ERROR backend-failed it broke"),
        (&[wrong(), partial("m", "a"), ended("completed")], "RUN_FINISHED r"),
    ];
    for (events, expected) in table {
        let frames = frames(events);
        let end = frames.last().unwrap();
        assert_eq!(text(end), expected, "{events:?}");
        assert_eq!(frames.iter().filter(|frame| frame.ends_run).count(), 1);
    }
}

#[test]
fn everything_is_closed_before_a_failure() {
    let events = [stage("router", "started"), partial("m", "a"), ended("failed")];
    assert_eq!(
        shown_in_run(&events)[3..],
        ["TEXT_MESSAGE_END m", "STEP_FINISHED router", "RUN_ERROR backend-failed backend-failed"]
    );
}

#[test]
fn a_client_that_names_its_version_gets_ours_and_hears_of_a_cancel_as_an_outcome() {
    let first = RunPart { has_protocol_version: true, parent_run_id: Some("p".to_owned()), ..part("r") };
    let table: [(&[TestEvent], &[&str]); 2] = [
        (
            &[ended("cancelled")],
            &[
                r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","parentRunId":"p","protocolVersion":"1.0"}"#,
                r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"cancelled"}}"#,
            ],
        ),
        (
            &[asked("q"), ended("cancelled")],
            &[
                r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","parentRunId":"p","protocolVersion":"1.0"}"#,
                r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"q","reason":"example"}]}}"#,
                r#"{"type":"RUN_ERROR","message":"run canceled by user","code":"RUN_CANCELED"}"#,
            ],
        ),
    ];
    for (events, expected) in table {
        let mut fold = ThreadFold::with_plain_names("t", 0);
        fold.learn("c", vec![first.clone()]);
        let frames = fold_all(&mut fold, events);
        verifier::check(&frames);
        assert_eq!(frames.iter().map(|frame| frame.data.as_str()).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn nothing_follows_the_end_of_a_command() {
    let events = [ended("cancelled"), partial("m", "a"), ended("completed")];
    assert_eq!(shown(&events), ["RUN_STARTED r", "RUN_ERROR RUN_CANCELED run canceled by user"]);
}

#[test]
fn a_command_that_ends_in_its_queue_is_shown_after_the_active_one() {
    let mut fold = ThreadFold::with_plain_names("t", 0);
    for (command, run) in [("c", "r"), ("d", "s"), ("e", "u")] {
        fold.learn(command, vec![part(run)]);
    }
    let events = [
        partial("m", "a"),
        ended("cancelled").of("e"),
        ended("failed").of("d"),
        ended("failed").of("nobody knows"),
        ended("cancelled"),
    ];
    let frames = fold_all(&mut fold, &events);
    verifier::check(&frames);
    let shown: Vec<String> = frames.iter().map(|frame| format!("{} {}", frame.id, text(frame))).collect();
    assert_eq!(
        shown[6..],
        [
            "5-0 TEXT_MESSAGE_END m",
            "5-1 STEP_FINISHED worker",
            "5-2 RUN_ERROR RUN_CANCELED run canceled by user",
            "5-3 RUN_STARTED u",
            "5-4 RUN_ERROR RUN_CANCELED run canceled by user",
            "5-5 RUN_STARTED s",
            "5-6 RUN_ERROR backend-failed backend-failed",
        ]
    );
}
