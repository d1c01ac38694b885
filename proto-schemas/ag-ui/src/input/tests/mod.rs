//! Inputs, from the seed's examples to nonsense.

mod forms;
mod limits;
mod order;
mod random;
mod resumed;
mod seed;
mod spellings;

use super::*;
use serde_json::json;

/// Parses with a server that has signed everything below `https://signed/`.
fn parse_with(
    input: &Value,
    rules: InputRules,
    client_time: ClientTimeRule,
) -> Result<RunInput, InputRefused> {
    let mut is_signed = |attachment: &InputAttachment| attachment.url.starts_with("https://signed/");
    RunInput::parse(input.to_string().as_bytes(), rules, client_time, &mut is_signed)
}

fn strict(input: &Value) -> Result<RunInput, InputRefused> {
    parse_with(input, InputRules::Strict, ClientTimeRule::Strict)
}

fn lenient(input: &Value) -> Result<RunInput, InputRefused> {
    parse_with(input, InputRules::Lenient, ClientTimeRule::Strict)
}

/// The sentence that an input is refused with.
fn refused(input: &Value) -> String {
    strict(input).unwrap_err().detail
}

/// The paths and sentences of what is wrong with the form of an input.
fn violations(result: Result<RunInput, InputRefused>) -> Vec<(String, String)> {
    let refused = result.unwrap_err();
    assert_eq!(refused.to_string(), "invalid RunAgentInput");
    refused.errors.into_iter().map(|violation| (violation.path, violation.message)).collect()
}

/// An input that says everything that the protocol has.
fn whole() -> Value {
    json!({
        "threadId": "550e8400-e29b-41d4-a716-446655440000",
        "runId": "run-001",
        "parentRunId": "run-000",
        "protocolVersion": "1.0",
        "state": { "snake_case": { "camelCase": null } },
        "messages": [
            { "id": "m1", "role": "user", "name": "Ann", "encryptedValue": "e", "content": [
                { "type": "text", "text": "what is" },
                { "type": "binary", "mimeType": "image/png", "url": "https://signed/1", "id": "b", "filename": "1.png" },
                { "type": "text", "text": "this?" },
                { "type": "image", "source": { "type": "url", "value": "https://signed/2", "mimeType": "image/gif" } },
            ] },
            { "id": "m2", "role": "assistant", "content": "a", "encryptedValue": "e", "toolCalls": [
                { "id": "c1", "type": "function", "encryptedValue": "e",
                  "function": { "name": "clock", "arguments": "{\"time_zone\":null}" } },
            ] },
            { "id": "m3", "role": "tool", "content": "noon", "toolCallId": "c1", "error": "late" },
            { "id": "m4", "role": "system", "content": "s" },
            { "id": "m5", "role": "developer", "content": "d", "name": "Bob" },
            { "id": "m6", "role": "reasoning", "content": "r", "encryptedValue": "e" },
            { "id": "m7", "role": "activity", "activityType": "PLAN", "content": { "tool_call_id": 1, "steps": [] } },
        ],
        "tools": [{ "name": "t", "description": "d", "parameters": { "type": "object", "run_id": 1 } }],
        "context": [{ "description": "d", "value": "v" }],
        "forwardedProps": { "runtime_mode": "automation", "client_time": {
            "device_timezone": "Asia/Shanghai",
            "client_now_iso": "2026-03-16T09:12:33+08:00",
            "client_epoch_ms": 1_773_623_553_000_i64,
        } },
    })
}

/// An answer to an interrupt, without a user message.
fn resuming() -> Value {
    let mut input = whole();
    input["messages"] = json!([]);
    input["resume"] = json!([{ "interruptId": "i1", "status": "resolved", "payload": { "approved": true } }]);
    input
}

#[test]
fn everything_arrives() {
    let input = strict(&whole()).unwrap();
    let turn = input.turn.unwrap();
    assert_eq!((turn.message_id.as_str(), turn.text.as_str()), ("m1", "what is\nthis?"));
    let attachments =
        [("image/png", "https://signed/1", Some("1.png")), ("image/gif", "https://signed/2", None)];
    let attachments = attachments.map(|(mime_type, url, filename)| InputAttachment {
        mime_type: mime_type.to_owned(),
        url: url.to_owned(),
        filename: filename.map(str::to_owned),
    });
    assert_eq!(turn.attachments, attachments);
    assert_eq!(input.thread_id, "550e8400-e29b-41d4-a716-446655440000");
    assert_eq!(input.run_id, "run-001");
    assert_eq!(input.parent_run_id.as_deref(), Some("run-000"));
    assert_eq!(input.protocol_version.as_deref(), Some("1.0"));
    assert_eq!(input.mode, RuntimeMode::Automation);
    assert_eq!(input.client_time.unwrap().device_timezone, "Asia/Shanghai");
    assert!(!input.client_time_ignored && !input.clocks_disagree);
    assert_eq!(input.tools, *whole()["tools"].as_array().unwrap());
    assert_eq!(input.context, *whole()["context"].as_array().unwrap());
    assert_eq!(input.state, whole()["state"]);
    assert_eq!(input.resume, []);
    assert_eq!(input.normalized, whole());
}
