//! Answers to what an earlier run asked.

use super::*;

#[test]
fn answers_need_no_user_message() {
    let input = strict(&resuming()).unwrap();
    assert_eq!((input.turn, input.resume.len()), (None, 1));
    assert_eq!(input.normalized, resuming());

    let mut input = resuming();
    input["messages"] = json!([{ "id": "a", "role": "assistant" }]);
    assert_eq!(strict(&input).unwrap().turn, None);
    input["messages"] = whole()["messages"].clone();
    assert_eq!(strict(&input).unwrap().turn.unwrap().message_id, "m1");
    input["messages"].as_array_mut().unwrap().push(whole()["messages"][0].clone());
    assert_eq!(refused(&input), "RunAgentInput.messages must contain exactly one user message");
    for empty in [json!([]), json!(null)] {
        input["messages"] = json!([]);
        input["resume"] = empty;
        assert_eq!(refused(&input), "RunAgentInput.messages must contain exactly one user message");
    }
}

#[test]
fn decisions_are_what_front_ends_say() {
    for (status, payload, decision) in [
        ("resolved", json!({ "decision": "acceptForSession" }), Some("acceptForSession")),
        ("resolved", json!({ "decision": "decline", "approved": true }), Some("decline")),
        ("resolved", json!({ "approved": true }), Some("accept")),
        ("resolved", json!({ "approved": false, "reason": "no" }), Some("decline")),
        ("resolved", json!(true), Some("accept")),
        ("resolved", json!(false), Some("decline")),
        ("resolved", json!({ "approved": "true" }), None),
        ("resolved", json!({ "decision": 1 }), None),
        ("resolved", json!({ "answers": ["main"] }), None),
        ("resolved", json!("accept"), None),
        ("resolved", json!(["approved"]), None),
        ("resolved", json!(null), None),
        ("cancelled", json!({ "approved": true }), Some("cancel")),
        ("cancelled", json!(null), Some("cancel")),
    ] {
        let mut input = resuming();
        input["resume"] = json!([{ "interruptId": "i", "status": status, "payload": payload }]);
        let answer = strict(&input).unwrap().resume.remove(0);
        assert_eq!(answer.decision().as_deref(), decision, "{status} {payload}");
    }
}
