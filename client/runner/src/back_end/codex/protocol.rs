//! The words of `codex app-server`: JSON-RPC without the member `jsonrpc`, one object per line.

use proto_schemas::requests::run::{ExecutionPolicy, NetworkAccess};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

use crate::back_end::TurnRequest;

/// What Codex says of a thread whose file is gone.
const NO_ROLLOUT: &str = "no rollout found for thread id";

/// A line of Codex.
#[derive(Debug, PartialEq)]
pub(super) enum CodexMessage {
    /// The answer to a request of ours: its result, or the sentence of its error.
    Answer {
        request: u64,
        result: Result<Value, String>,
    },
    /// Codex wants to know something. Its id is given back as it came.
    Question {
        id: Value,
        method: String,
        params: Value,
    },
    Notice {
        method: String,
        params: Value,
    },
}

#[derive(Deserialize)]
struct RawMessage {
    #[serde(default)]
    id: Value,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    result: Option<Value>,
    error: Option<RawError>,
}

#[derive(Deserialize)]
struct RawError {
    #[serde(default)]
    message: String,
}

impl CodexMessage {
    /// No sentence has a part of the line: it may be anything.
    pub fn read(line: &[u8]) -> Result<CodexMessage, String> {
        let no_message = || "codex wrote a line that is no message of its protocol".to_owned();
        let raw: RawMessage = serde_json::from_slice(line).map_err(|_| no_message())?;
        match (raw.method, raw.id) {
            (Some(method), Value::Null) => Ok(CodexMessage::Notice { method, params: raw.params }),
            (Some(method), id) => Ok(CodexMessage::Question { id, method, params: raw.params }),
            (None, id) => {
                let request = id.as_u64().ok_or_else(no_message)?;
                let result = match (raw.error, raw.result) {
                    (Some(error), _) => Err(error.message),
                    (None, result) => Ok(result.unwrap_or_default()),
                };
                Ok(CodexMessage::Answer { request, result })
            }
        }
    }
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "id": id, "method": method, "params": params })
}

pub(super) fn notice(method: &str) -> Value {
    json!({ "method": method })
}

pub(super) fn answer(id: &Value, result: &Value) -> Value {
    json!({ "id": id, "result": result })
}

pub(super) fn refusal(id: &Value) -> Value {
    json!({ "id": id, "error": { "code": -32601, "message": "this client does not support it" } })
}

pub(super) fn initialize() -> Value {
    json!({ "clientInfo": { "name": "aund", "title": "aund", "version": env!("CARGO_PKG_VERSION") } })
}

/// How a thread is started, and resumed. The words of a policy are those of Codex.
pub(super) fn thread(workspace: &Path, policy: &ExecutionPolicy) -> Value {
    json!({
        "cwd": workspace.to_string_lossy(),
        "approvalPolicy": policy.approval,
        "sandbox": policy.sandbox,
        "config": { "sandbox_workspace_write": { "network_access": policy.network == NetworkAccess::Enabled } },
    })
}

/// The id of the command is kept with the turn: what became of it is found by that.
pub(super) fn turn(thread_id: &str, turn: &TurnRequest) -> Value {
    let context = turn.context.iter().map(|item| text(&context_of(item)));
    let images = turn.images.iter().map(|image| json!({ "type": "localImage", "path": image.path }));
    let input: Vec<Value> = context.chain([text(&turn.text)]).chain(images).collect();
    json!({ "threadId": thread_id, "clientUserMessageId": turn.command_id, "input": input })
}

pub(super) fn steer(thread_id: &str, turn_id: &str, guidance: &str) -> Value {
    json!({ "threadId": thread_id, "expectedTurnId": turn_id, "input": [text(guidance)] })
}

pub(super) fn interrupt(thread_id: &str, turn_id: &str) -> Value {
    json!({ "threadId": thread_id, "turnId": turn_id })
}

/// The newest turns of a thread, with what the user said first and the agent last.
pub(super) fn newest_turns(thread_id: &str) -> Value {
    json!({ "threadId": thread_id, "limit": 8, "sortDirection": "desc", "itemsView": "summary" })
}

/// Why a thread is not resumed.
pub(super) fn resume_failure(message: &str) -> &'static str {
    match message.starts_with(NO_ROLLOUT) {
        true => "session-store-evicted",
        false => "thread-resume-failed",
    }
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn context_of(item: &Value) -> String {
    match (item["description"].as_str(), item["value"].as_str()) {
        (Some(description), Some(value)) => format!("{description}:\n{value}"),
        _ => item.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::back_end::TurnImage;
    use proto_schemas::requests::run::{ApprovalMode, Sandbox};

    #[test]
    fn lines_are_answers_questions_and_notices() {
        for (line, read) in [
            (
                r#"{"id":7,"result":{"turnId":"t"}}"#,
                CodexMessage::Answer { request: 7, result: Ok(json!({ "turnId": "t" })) },
            ),
            (
                r#"{"error":{"code":-32600,"message":"no"},"id":7}"#,
                CodexMessage::Answer { request: 7, result: Err("no".to_owned()) },
            ),
            (
                r#"{"method":"x","id":0,"params":{"a":1}}"#,
                CodexMessage::Question { id: json!(0), method: "x".to_owned(), params: json!({ "a": 1 }) },
            ),
            (
                r#"{"method":"x","emittedAtMs":1}"#,
                CodexMessage::Notice { method: "x".to_owned(), params: Value::Null },
            ),
        ] {
            assert_eq!(CodexMessage::read(line.as_bytes()), Ok(read), "{line}");
        }
        for line in ["", "hello", "[]", "7", "{}", r#"{"id":"a","result":1}"#, "{\"method\":7}", "{\"id\":1"]
        {
            let refused = CodexMessage::read(line.as_bytes()).unwrap_err();
            assert_eq!(refused, "codex wrote a line that is no message of its protocol", "{line}");
        }
    }

    #[test]
    fn a_thread_has_the_bounds_of_the_policy() {
        let policy = ExecutionPolicy {
            sandbox: Sandbox::ReadOnly,
            approval: ApprovalMode::OnRequest,
            network: NetworkAccess::Disabled,
            ..ExecutionPolicy::default()
        };
        let params = thread(Path::new("/w"), &policy);
        assert_eq!(
            params,
            json!({
                "cwd": "/w", "approvalPolicy": "on-request", "sandbox": "read-only",
                "config": { "sandbox_workspace_write": { "network_access": false } },
            })
        );
    }

    #[test]
    fn a_turn_has_its_context_its_text_and_its_images() {
        let request = TurnRequest {
            command_id: "cmd_1".to_owned(),
            text: "hello".to_owned(),
            images: vec![TurnImage { path: "/w/1.png".into(), mime_type: "image/png".to_owned() }],
            context: vec![json!({ "description": "City", "value": "Bonn" }), json!([1])],
            ..TurnRequest::default()
        };
        assert_eq!(
            turn("t", &request),
            json!({ "threadId": "t", "clientUserMessageId": "cmd_1", "input": [
                { "type": "text", "text": "City:\nBonn" },
                { "type": "text", "text": "[1]" },
                { "type": "text", "text": "hello" },
                { "type": "localImage", "path": "/w/1.png" },
            ] })
        );
    }

    #[test]
    fn an_evicted_rollout_is_told_from_other_failures() {
        let id = "01a1f457-a5a3-7432-91fe-17acf085e300";
        assert_eq!(resume_failure(&format!("no rollout found for thread id {id}")), "session-store-evicted");
        assert_eq!(resume_failure("invalid session id: no rollout found"), "thread-resume-failed");
    }
}
