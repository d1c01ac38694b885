//! camelCase, snake_case, and what is absent or there twice.

use super::*;

/// Rewrites the names of members that the protocol has, as a client in Python would: not what belongs to applications.
pub(super) fn in_snake_case(value: &Value) -> Value {
    const NAMES: [(&str, &str); 11] = [
        ("threadId", "thread_id"),
        ("runId", "run_id"),
        ("parentRunId", "parent_run_id"),
        ("protocolVersion", "protocol_version"),
        ("forwardedProps", "forwarded_props"),
        ("encryptedValue", "encrypted_value"),
        ("toolCalls", "tool_calls"),
        ("toolCallId", "tool_call_id"),
        ("activityType", "activity_type"),
        ("mimeType", "mime_type"),
        ("interruptId", "interrupt_id"),
    ];
    const OF_APPLICATIONS: [&str; 4] = ["state", "parameters", "payload", "forwardedProps"];
    match value {
        Value::Array(items) => items.iter().map(in_snake_case).collect(),
        Value::Object(members) => {
            let rename = |(name, value): (&String, &Value)| {
                let is_theirs =
                    OF_APPLICATIONS.contains(&name.as_str()) || (name == "content" && value.is_object());
                let value = if is_theirs { value.clone() } else { in_snake_case(value) };
                let known = NAMES.iter().find(|(camel, _)| camel == name);
                (known.map_or(name.as_str(), |(_, snake)| snake).to_owned(), value)
            };
            Value::Object(members.iter().map(rename).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn both_spellings_are_the_same_input() {
    for input in [whole(), resuming()] {
        let snake = in_snake_case(&input);
        assert_ne!(snake, input);
        assert_eq!(strict(&snake).unwrap(), strict(&input).unwrap());
        assert_eq!(strict(&snake).unwrap().normalized, input);
    }
}

#[test]
fn both_spellings_together_are_refused() {
    let snake = in_snake_case(&resuming_and_whole());
    for (pointer, name, camel) in [
        ("", "thread_id", "threadId"),
        ("", "run_id", "runId"),
        ("", "parent_run_id", "parentRunId"),
        ("", "protocol_version", "protocolVersion"),
        ("", "forwarded_props", "forwardedProps"),
        ("/messages/0", "encrypted_value", "encryptedValue"),
        ("/messages/0/content/1", "mime_type", "mimeType"),
        ("/messages/0/content/3/source", "mime_type", "mimeType"),
        ("/messages/1", "tool_calls", "toolCalls"),
        ("/messages/1/tool_calls/0", "encrypted_value", "encryptedValue"),
        ("/messages/2", "tool_call_id", "toolCallId"),
        ("/messages/6", "activity_type", "activityType"),
        ("/resume/0", "interrupt_id", "interruptId"),
    ] {
        let mut input = snake.clone();
        let object = input.pointer_mut(pointer).unwrap();
        object[camel] = object[name].clone();
        assert_eq!(refused(&input), format!("duplicate field: {camel}"), "{pointer}");
        assert_eq!(strict(&input).unwrap_err().errors, []);
    }
}

fn resuming_and_whole() -> Value {
    let mut input = whole();
    input["resume"] = resuming()["resume"].clone();
    input
}

#[test]
fn unknown_members_are_dropped_at_the_top_and_kept_inside() {
    let mut input = whole();
    input["extra"] = json!({ "a": 1 });
    input["messages"][0]["metadata"] = json!({ "a_b": null });
    input["messages"][0]["mine"] = json!(null);
    let normalized = strict(&input).unwrap().normalized;
    input.as_object_mut().unwrap().remove("extra");
    assert_eq!(normalized, input);
}

#[test]
fn null_is_absent() {
    let mut input = whole();
    for pointer in [
        "/parentRunId",
        "/protocolVersion",
        "/state",
        "/tools",
        "/context",
        "/messages/0/name",
        "/messages/0/encryptedValue",
        "/messages/0/content/1/id",
        "/messages/0/content/1/filename",
        "/messages/1/content",
        "/messages/1/toolCalls",
        "/messages/2/error",
        "/forwardedProps/client_time",
    ] {
        let mut absent = input.clone();
        *input.pointer_mut(pointer).unwrap() = Value::Null;
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        absent.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
        assert_eq!(strict(&input).unwrap(), strict(&absent).unwrap(), "{pointer}");
        assert_eq!(strict(&input).unwrap().normalized.pointer(pointer), None);
    }
    assert_eq!(strict(&input).unwrap().state, Value::Null);
}

#[test]
fn a_member_is_given_once() {
    let refused = |json: &str| {
        violations(RunInput::parse(json.as_bytes(), InputRules::Strict, ClientTimeRule::Strict, &mut |_| {
            true
        }))
    };
    let json = whole().to_string();
    for (once, twice, path) in [
        (r#""runId":"#, r#""runId":"r","runId":"#, "runId"),
        (r#""runId":"#, r#""unknown":1,"unknown":2,"runId":"#, "unknown"),
        (r#""camelCase":"#, r#""camelCase":1,"camelC\u0061se":"#, "state.snake_case.camelCase"),
        (r#""role":"tool""#, r#""role":"tool","role":"tool""#, "messages[2].role"),
        (
            r#""device_timezone":"#,
            r#""device_timezone":1,"device_timezone":"#,
            "forwardedProps.client_time.device_timezone",
        ),
    ] {
        let found = refused(&json.replacen(once, twice, 1));
        assert_eq!(found, [(path.to_owned(), "this member is given twice".to_owned())]);
    }
    let long =
        format!(r#"{{"{0}":{{"a":1,"a":2}},"threadId":"","runId":"","messages":[]}}"#, "é".repeat(50_000));
    assert_eq!(refused(&long)[0].0, format!("{}…", "é".repeat(100)));
}
