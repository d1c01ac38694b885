//! What is wrong with the form of an input, each with its path.

use super::*;

/// An input with this at a JSON Pointer; null removes it.
fn changed(pointer: &str, value: Value) -> Value {
    let mut input = whole();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    input.pointer_mut(parent).unwrap()[name] = value;
    input
}

#[test]
fn every_member_has_its_type() {
    for (pointer, path, message) in [
        ("/threadId", "threadId", "threadId must be a string"),
        ("/runId", "runId", "runId must be a string"),
        ("/parentRunId", "parentRunId", "parentRunId must be a string"),
        ("/protocolVersion", "protocolVersion", "protocolVersion must be a string"),
        ("/messages", "messages", "messages must be an array"),
        ("/tools", "tools", "tools must be an array"),
        ("/context", "context", "context must be an array"),
        ("/resume", "resume", "resume must be an array"),
    ] {
        let found = violations(strict(&changed(pointer, json!(7))));
        assert_eq!(found, [(path.to_owned(), message.to_owned())]);
    }
    for (pointer, message) in [
        ("/messages/0/id", "id must be a string"),
        ("/messages/0/role", "role must be a string"),
        ("/messages/0/content", "content must be a string or an array of content blocks"),
        ("/messages/0/name", "name must be a string"),
        ("/messages/0/encryptedValue", "encryptedValue must be a string"),
        ("/messages/1/content", "content must be a string"),
        ("/messages/1/toolCalls", "toolCalls must be an array"),
        ("/messages/2/toolCallId", "toolCallId must be a string"),
        ("/messages/2/error", "error must be a string"),
        ("/messages/6/activityType", "activityType must be a string"),
        ("/messages/6/content", "this must be an object"),
    ] {
        let path = format!("messages[{}].{}", &pointer[10..11], &pointer[12..]);
        assert_eq!(violations(strict(&changed(pointer, json!(7)))), [(path, message.to_owned())]);
    }
}

#[test]
fn inner_objects_have_a_form_too() {
    for (pointer, value, path, message) in [
        ("/messages/3", json!("s"), "messages[3]", "this must be an object"),
        ("/messages/0/content/0", json!(null), "messages[0].content[0]", "this must be an object"),
        ("/messages/0/content/0/text", json!(1), "messages[0].content[0].text", "text must be a string"),
        (
            "/messages/0/content/1/mimeType",
            json!(1),
            "messages[0].content[1].mimeType",
            "mimeType must be a string",
        ),
        ("/messages/0/content/1/data", json!([]), "messages[0].content[1].data", "data must be a string"),
        (
            "/messages/0/content/3/source",
            json!("u"),
            "messages[0].content[3].source",
            "this must be an object",
        ),
        (
            "/messages/0/content/3/source/type",
            json!("path"),
            "messages[0].content[3].source.type",
            "type must be \"url\", \"data\" or \"file\"",
        ),
        (
            "/messages/1/toolCalls/0/type",
            json!("tool"),
            "messages[1].toolCalls[0].type",
            "type must be \"function\"",
        ),
        (
            "/messages/1/toolCalls/0/function/arguments",
            json!({}),
            "messages[1].toolCalls[0].function.arguments",
            "arguments must be a string",
        ),
        ("/tools/0/parameters", json!(true), "tools[0].parameters", "parameters must be an object"),
        ("/tools/0/parameters", json!(null), "tools[0].parameters", "parameters is required"),
        ("/tools/0/description", json!(null), "tools[0].description", "description is required"),
        ("/context/0/value", json!(1), "context[0].value", "value must be a string"),
        ("/resume", json!([1]), "resume[0]", "this must be an object"),
        (
            "/resume",
            json!([{ "interruptId": "i", "status": "done" }]),
            "resume[0].status",
            "status must be \"resolved\" or \"cancelled\"",
        ),
        ("/resume", json!([{ "status": "cancelled" }]), "resume[0].interruptId", "interruptId is required"),
    ] {
        let parent_is_list = pointer.rsplit('/').next().unwrap().parse::<usize>().ok();
        let input = match parent_is_list {
            Some(_) => {
                let mut input = whole();
                *input.pointer_mut(pointer).unwrap() = value;
                input
            }
            None => changed(pointer, value),
        };
        assert_eq!(violations(strict(&input)), [(path.to_owned(), message.to_owned())]);
    }
}

#[test]
fn violations_come_in_the_order_of_the_input_and_are_twenty_at_most() {
    let json =
        r#"{"runId":1,"messages":[{"role":"user","content":1},{"id":"a","role":"robot"}],"threadId":2}"#;
    let (rules, rule) = (InputRules::Strict, ClientTimeRule::Strict);
    let found = violations(RunInput::parse(json.as_bytes(), rules, rule, &mut |_| true));
    let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["runId", "messages[0].id", "messages[0].content", "messages[1].role", "threadId"]);

    let json = format!(r#"{{"messages":[{}0],"threadId":7,"runId":"r"}}"#, "0,".repeat(100_000));
    let found = violations(RunInput::parse(json.as_bytes(), rules, rule, &mut |_| true));
    assert_eq!(found.len(), 20);
    assert_eq!(found[19].0, "messages[19]");
}

#[test]
fn what_is_no_object_of_json_is_refused_in_our_words() {
    for json in [
        "",
        "{",
        "nul",
        "{\"a\":1e999}",
        "{\"a\":\"\\ud800\"}",
        "{} {}",
        "\u{feff}{}",
        "{\"a\":NaN}",
        "\"\u{1}\"",
    ] {
        let parsed =
            RunInput::parse(json.as_bytes(), InputRules::Lenient, ClientTimeRule::Strict, &mut |_| true);
        let message = "RunAgentInput must be valid JSON, nested at most 127 levels deep";
        assert_eq!(violations(parsed), [(String::new(), message.to_owned())], "{json}");
    }
    let parsed =
        RunInput::parse(b"{\"a\":\"\xff\"}", InputRules::Lenient, ClientTimeRule::Strict, &mut |_| true);
    assert_eq!(violations(parsed).len(), 1);
    for input in [json!([]), json!(null), json!("x"), json!(7)] {
        assert_eq!(
            violations(strict(&input)),
            [(String::new(), "RunAgentInput must be an object".to_owned())]
        );
    }
    let missing = violations(strict(&json!({})));
    let paths: Vec<&str> = missing.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["threadId", "runId", "messages"]);
}

#[test]
fn published_clients_are_taken_as_they_are() {
    let mut input = whole();
    input["messages"] = json!([
        { "id": "a0", "role": "assistant", "content": "How can I help?" },
        { "id": "m1", "role": "user", "content": "" },
        { "id": "a1", "role": "assistant", "toolCalls": [] },
        { "id": "t1", "role": "tool", "toolCallId": "c", "content": [{ "type": "text", "text": "noon" }] },
        { "id": "m2", "role": "user", "content": "and now?" },
        { "id": "a2", "role": "assistant", "content": "later" },
    ]);
    input["tools"] = json!([{ "name": "t", "description": "d" }]);
    for props in [json!(null), json!({}), json!({ "threadMetadata": { "a": 1 }, "runtime_mode": null })] {
        input["forwardedProps"] = props;
        let parsed = lenient(&input).unwrap();
        assert_eq!((parsed.turn.unwrap().message_id.as_str(), parsed.mode), ("m2", RuntimeMode::Chat));
    }
    let paths: Vec<String> = violations(strict(&input)).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["messages[3].content", "tools[0].parameters"]);
    for props in [json!("p"), json!([]), json!({ "runtime_mode": "robot" }), json!({ "runtime_mode": 1 })] {
        input["forwardedProps"] = props;
        assert_eq!(lenient(&input).unwrap_err().detail, "invalid RunAgentInput.forwardedProps");
    }
    input["messages"] = json!([{ "id": "a0", "role": "assistant" }]);
    assert_eq!(
        lenient(&input).unwrap_err().detail,
        "RunAgentInput.messages must contain exactly one user message"
    );
}

#[test]
fn the_mode_is_required() {
    for props in [
        json!(null),
        json!({}),
        json!([]),
        json!({ "runtimeMode": "chat" }),
        json!({ "runtime_mode": "Chat" }),
    ] {
        assert_eq!(refused(&changed("/forwardedProps", props)), "invalid RunAgentInput.forwardedProps");
    }
    assert_eq!(
        refused(&changed("/forwardedProps/client_time", json!(1))),
        "invalid RunAgentInput.forwardedProps"
    );
}
