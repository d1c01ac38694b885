use super::*;

#[test]
fn a_call_is_whole_when_it_begins_and_its_result_comes_later() {
    let started =
        json!({ "callId": "k", "toolName": "clock", "status": "started", "args": { "zone": "UTC" } });
    let completed = json!({ "callId": "k", "toolName": "clock", "status": "completed", "output": "now" });
    let events = [
        whole("m", "a"),
        event("c", "tool_call", &started),
        event("c", "command_output", &json!({ "stream": "stdout", "text": "now" })),
        event("c", "tool_call", &completed),
        event("c", "tool_call", &completed),
    ];
    assert_eq!(
        shown_in_worker(&events)[2..],
        [
            "TEXT_MESSAGE_END m",
            "TOOL_CALL_START k clock m",
            r#"TOOL_CALL_ARGS k {"zone":"UTC"}"#,
            "TOOL_CALL_END k",
            "TOOL_CALL_RESULT k-result k now",
        ]
    );
}

#[test]
fn a_message_that_is_still_written_stays_open_around_a_call() {
    let events = [
        partial("m", "a"),
        call("k", "started"),
        call("k", "completed"),
        partial("m", "b"),
        whole("m", "abc"),
        ended("completed"),
    ];
    assert_eq!(
        shown_in_worker(&events)[1..8],
        [
            "TEXT_MESSAGE_CONTENT m a",
            "TOOL_CALL_START k clock m",
            "TOOL_CALL_END k",
            "TOOL_CALL_RESULT k-result k ",
            "TEXT_MESSAGE_CONTENT m b",
            "TEXT_MESSAGE_CONTENT m c",
            r#"TEXT_MESSAGE_END m {"agentrun":{"status":"completed"}}"#,
        ]
    );
}

#[test]
fn a_result_may_be_all_that_is_known_of_a_call() {
    let table = [
        (json!({ "status": "failed" }), "failed"),
        (json!({ "status": "failed", "output": "no zone" }), "no zone"),
        (json!({ "status": "completed", "output": { "a": [1] } }), r#"{"a":[1]}"#),
        (json!({ "status": "completed", "output": null }), ""),
    ];
    for (mut payload, content) in table {
        payload["callId"] = "k".into();
        let shown = shown_in_worker(&[event("c", "tool_call", &payload)]);
        let result = format!("TOOL_CALL_RESULT k-result k {content}");
        assert_eq!(shown, ["TOOL_CALL_START k tool", "TOOL_CALL_END k", &result]);
    }
}

#[test]
fn an_id_that_comes_again_is_another_call() {
    let again = [
        call("k", "started"),
        call("k", "started"),
        call("k", "completed"),
        call("k", "failed"),
        call("k", "started"),
        call("k", "failed"),
    ];
    assert_eq!(
        shown_in_worker(&again),
        [
            "TOOL_CALL_START k clock",
            "TOOL_CALL_END k",
            "TOOL_CALL_RESULT k-result k ",
            "TOOL_CALL_START k-2 clock",
            "TOOL_CALL_END k-2",
            "TOOL_CALL_RESULT k-2-result k-2 failed",
        ]
    );
}

#[test]
fn a_call_belongs_to_a_message_only_where_nothing_stands_between() {
    let events = [
        whole("m", "a"),
        call("k", "started"),
        call("l", "started"),
        call("k", "completed"),
        call("n", "started"),
        whole("o", "b"),
        thought("t", "hm"),
        call("p", "started"),
    ];
    let shown = shown(&events);
    let calls: Vec<_> = shown.iter().filter(|frame| frame.starts_with("TOOL_CALL_START")).collect();
    assert_eq!(
        calls,
        [
            "TOOL_CALL_START k clock m",
            "TOOL_CALL_START l clock m",
            "TOOL_CALL_START n clock",
            "TOOL_CALL_START p clock",
        ]
    );
}
