use super::*;

#[test]
fn a_message_is_shown_as_it_is_written_and_ends_with_the_command() {
    let events = [
        partial("m", "a "),
        partial("m", ""),
        partial("m", "b "),
        whole("m", "a b c"),
        last("m", "a b c"),
        ended("completed"),
    ];
    assert_eq!(
        shown_in_worker(&events),
        [
            "TEXT_MESSAGE_START m",
            "TEXT_MESSAGE_CONTENT m a ",
            "TEXT_MESSAGE_CONTENT m b ",
            "TEXT_MESSAGE_CONTENT m c",
            r#"TEXT_MESSAGE_END m {"agentrun":{"status":"completed"}}"#,
            "STEP_FINISHED worker",
            "RUN_FINISHED r",
        ]
    );
}

#[test]
fn a_whole_message_adds_only_what_continues_the_shown_text() {
    let table: [(&[TestEvent], &str); 5] = [
        (&[whole("m", "ab")], "ab"),
        (&[partial("m", "a"), whole("m", "xb"), partial("m", "c")], "a"),
        (&[partial("m", "ab"), whole("m", "a")], "ab"),
        (&[whole("m", "a"), partial("m", "b"), last("m", "a")], "a"),
        (&[partial("m", "é"), whole("m", "e")], "é"),
    ];
    for (events, expected) in table {
        let frames = frames(events);
        let deltas = frames.iter().filter(|frame| frame.kind == "TEXT_MESSAGE_CONTENT");
        let text: String = deltas.map(|frame| member(frame, "delta")).collect();
        assert_eq!(text, expected, "{events:?}");
    }
}

#[test]
fn another_message_ends_the_one_before_and_nothing_more_of_it_is_shown() {
    let events = [
        partial("m", "a"),
        partial("n", "b"),
        partial("m", "lost"),
        last("m", "a"),
        last("n", "bc"),
        ended("failed"),
    ];
    assert_eq!(
        shown_in_worker(&events)[..6],
        [
            "TEXT_MESSAGE_START m",
            "TEXT_MESSAGE_CONTENT m a",
            "TEXT_MESSAGE_END m",
            "TEXT_MESSAGE_START n",
            "TEXT_MESSAGE_CONTENT n b",
            "TEXT_MESSAGE_CONTENT n c",
        ]
    );
}

#[test]
fn a_thought_ends_a_message_that_is_whole() {
    let events =
        [whole("m", "a"), thought("t", "hm"), thought("t", "hm"), thought("t", "ah"), partial("n", "b")];
    assert_eq!(
        shown_in_worker(&events)[2..],
        [
            "TEXT_MESSAGE_END m",
            "REASONING_START t",
            "REASONING_MESSAGE_START t",
            "REASONING_MESSAGE_CONTENT t hm",
            "REASONING_MESSAGE_END t",
            "REASONING_END t",
            "REASONING_START t-2",
            "REASONING_MESSAGE_START t-2",
            "REASONING_MESSAGE_CONTENT t-2 ah",
            "REASONING_MESSAGE_END t-2",
            "REASONING_END t-2",
            "TEXT_MESSAGE_START n",
            "TEXT_MESSAGE_CONTENT n b",
        ]
    );
}

#[test]
fn a_message_without_an_item_is_named_by_its_command() {
    let events = [
        event("c", "assistant_message", &json!({ "text": "a" })),
        event("c", "reasoning", &json!({ "text": "b" })),
    ];
    let shown = shown_in_worker(&events);
    assert_eq!((&*shown[0], &*shown[3]), ("TEXT_MESSAGE_START c-message", "REASONING_START c-reasoning"));
}

#[test]
fn no_id_is_shown_for_two_things() {
    let events = [whole("x", "a"), thought("x", "b"), call("x", "started"), whole("x-2", "c")];
    let mut ids = Vec::new();
    for frame in frames(&events) {
        match frame.kind {
            "TEXT_MESSAGE_START" | "REASONING_START" => ids.push(member(&frame, "messageId")),
            "TOOL_CALL_START" => ids.push(member(&frame, "toolCallId")),
            _ => {}
        }
    }
    assert_eq!(ids, ["x", "x-2", "x-3", "x-2-2"]);
}

#[test]
fn what_cannot_be_read_shows_nothing() {
    let mut events = vec![event("c", "thunder", &json!({ "text": "a" }))];
    for kind in random::KINDS {
        for payload in ["", "{", "[]", "null", "7", r#"{"text":7}"#, r#"{"status":"?"}"#] {
            events.push(TestEvent { command: "c".to_owned(), kind, payload: payload.to_owned() });
        }
    }
    assert_eq!(shown(&events), ["RUN_STARTED r"]);
}

#[test]
fn the_document_of_the_reply_is_in_the_end_of_the_last_message_and_alone() {
    let hints = json!({ "status": "success", "title": "T", "badge": "b", "body": "B", "actions": [] });
    let hinted = event("c", "backend_status", &json!({ "phase": "ui-hints", "ui_hints": hints }));
    let document = crate::compile_ui(&hints).unwrap();
    let events = [whole("m", "a"), hinted, last("m", "a"), ended("completed")];
    let metadata = json!({ "agentrun": { "status": "completed", "ui_schema": document } });
    assert_eq!(
        shown_in_worker(&events)[2..],
        [
            format!("TEXT_MESSAGE_END m {metadata}"),
            "STEP_FINISHED worker".to_owned(),
            format!("CUSTOM ui_schema {document}"),
            "RUN_FINISHED r".to_owned(),
        ]
    );
    let failed = [&events[..3], &[ended("failed")]].concat();
    assert!(shown(&failed).iter().all(|frame| !frame.contains("ui_schema")));
}

fn member(frame: &Frame, name: &str) -> String {
    let data: Value = serde_json::from_str(&frame.data).unwrap();
    data[name].as_str().unwrap().to_owned()
}
