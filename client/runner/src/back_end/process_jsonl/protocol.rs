//! The words between a runner and a program of the kind `process-jsonl`: one JSON object per line.

use crate::back_end::{
    ApprovalAnswer, BackEndEvent, BackEndQuestion, ToolProgress, ToolStatus, TurnEnd, TurnImage, TurnRequest,
    TurnStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

/// What a program is told.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum ToProgram {
    Turn {
        command_id: String,
        thread_id: Option<String>,
        text: String,
        images: Vec<TurnImage>,
        context: Vec<Value>,
        tools: Vec<Value>,
        timezone: Option<String>,
        mode: Option<String>,
    },
    Steer {
        text: String,
    },
    Interrupt,
    Approval {
        approval_id: String,
        decision: String,
        payload: Option<Value>,
    },
}

impl ToProgram {
    pub(super) fn turn(turn: TurnRequest, thread_id: Option<String>) -> ToProgram {
        let TurnRequest { command_id, text, images, context, tools, timezone, mode } = turn;
        ToProgram::Turn { command_id, thread_id, text, images, context, tools, timezone, mode }
    }

    pub(super) fn approval(answer: ApprovalAnswer) -> ToProgram {
        let ApprovalAnswer { approval_id, decision, payload } = answer;
        ToProgram::Approval { approval_id, decision, payload }
    }
}

/// What a program says.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum FromProgram {
    Text {
        item_id: String,
        delta: String,
    },
    Message {
        item_id: String,
        text: String,
    },
    Tool {
        call_id: String,
        name: String,
        status: ToolStatus,
        args: Option<Value>,
        output: Option<Value>,
        exit_code: Option<i64>,
    },
    Stage {
        name: String,
        status: StageStatus,
    },
    Thread {
        thread_id: String,
    },
    Status {
        phase: String,
    },
    Approval {
        approval_id: String,
        reason: String,
        message: Option<String>,
        call_id: Option<String>,
        response_schema: Option<Value>,
        options: Option<Vec<String>>,
    },
    Done {
        status: DoneStatus,
        message: Option<String>,
        failure_kind: Option<String>,
        #[serde(rename = "ui_hints")]
        ui_hints: Option<Value>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StageStatus {
    Started,
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DoneStatus {
    Completed,
    Failed,
}

impl FromProgram {
    /// A line of the program, or why it is none.
    pub(super) fn read(json: &[u8]) -> Result<FromProgram, String> {
        let read = serde_json::from_slice(json);
        read.map_err(|error| format!("the back end wrote a line that is no message of its protocol: {error}"))
    }

    pub(super) fn event(self) -> BackEndEvent {
        match self {
            FromProgram::Text { item_id, delta } => BackEndEvent::Partial { item_id, text: delta },
            FromProgram::Message { item_id, text } => BackEndEvent::Message { item_id, text },
            FromProgram::Tool { call_id, name, status, args, output, exit_code } => {
                BackEndEvent::Tool(ToolProgress { call_id, name, status, args, output, exit_code })
            }
            FromProgram::Stage { name, status } => {
                BackEndEvent::Stage { name, is_finished: status == StageStatus::Finished }
            }
            FromProgram::Thread { thread_id } => BackEndEvent::Thread { thread_id },
            FromProgram::Status { phase } => BackEndEvent::Status { phase },
            FromProgram::Approval { approval_id, reason, message, call_id, response_schema, options } => {
                BackEndEvent::Asked(BackEndQuestion {
                    approval_id,
                    reason,
                    message,
                    call_id,
                    response_schema,
                    options,
                })
            }
            FromProgram::Done { status, message, failure_kind, ui_hints } => {
                let status = match status {
                    DoneStatus::Completed => TurnStatus::Completed,
                    DoneStatus::Failed => TurnStatus::Failed,
                };
                BackEndEvent::Ended(TurnEnd { status, failure_kind, message, ui_hints })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_program_is_told_in_the_words_of_the_protocol() {
        let turn = TurnRequest {
            command_id: "cmd_1".to_owned(),
            text: "hello".to_owned(),
            images: vec![TurnImage { path: "/w/1.png".into(), mime_type: "image/png".to_owned() }],
            context: vec![json!({ "value": "x" })],
            tools: Vec::new(),
            timezone: Some("Europe/Berlin".to_owned()),
            mode: None,
        };
        let answer = ApprovalAnswer {
            approval_id: "q".to_owned(),
            decision: "accept".to_owned(),
            payload: Some(json!({ "a": 1 })),
        };
        for (message, written) in [
            (
                ToProgram::turn(turn, Some("t".to_owned())),
                json!({
                    "type": "turn", "commandId": "cmd_1", "threadId": "t", "text": "hello", "context": [{ "value": "x" }],
                    "images": [{ "path": "/w/1.png", "mimeType": "image/png" }], "tools": [], "timezone": "Europe/Berlin",
                }),
            ),
            (ToProgram::Steer { text: "left".to_owned() }, json!({ "type": "steer", "text": "left" })),
            (ToProgram::Interrupt, json!({ "type": "interrupt" })),
            (
                ToProgram::approval(answer),
                json!({ "type": "approval", "approvalId": "q", "decision": "accept", "payload": { "a": 1 } }),
            ),
        ] {
            assert_eq!(serde_json::to_value(&message).unwrap(), written);
            assert_eq!(serde_json::from_value::<ToProgram>(written).unwrap(), message);
        }
    }

    #[test]
    fn what_a_program_says_is_an_event() {
        for (line, event) in [
            (
                r#"{"type":"text","itemId":"m","delta":"a"}"#,
                BackEndEvent::Partial { item_id: "m".to_owned(), text: "a".to_owned() },
            ),
            (
                r#"{"type":"stage","name":"router","status":"finished","more":1}"#,
                BackEndEvent::Stage { name: "router".to_owned(), is_finished: true },
            ),
            (
                r#"{"type":"done","status":"failed","failureKind":"provider-unavailable","message":"m","ui_hints":{}}"#,
                BackEndEvent::Ended(TurnEnd {
                    ui_hints: Some(json!({})),
                    ..TurnEnd::failed("provider-unavailable", "m")
                }),
            ),
            (
                r#"{"type":"approval","approvalId":"q","reason":"r","options":["a"]}"#,
                BackEndEvent::Asked(BackEndQuestion {
                    approval_id: "q".to_owned(),
                    reason: "r".to_owned(),
                    options: Some(vec!["a".to_owned()]),
                    ..BackEndQuestion::default()
                }),
            ),
        ] {
            assert_eq!(FromProgram::read(line.as_bytes()).unwrap().event(), event, "{line}");
        }
    }

    #[test]
    fn what_is_no_such_object_is_refused() {
        for line in [
            "",
            " ",
            "hello",
            "[]",
            "{}",
            "null",
            r#"{"type":"sing"}"#,
            r#"{"type":"text"}"#,
            r#"{"type":"done","status":"cancelled"}"#,
            r#"{"type":"text","itemId":"m","delta":"a"} {"type":"done"}"#,
            "{\"type\":\"text\",\"itemId\":\"m\",\"delta\":\"\u{0}",
        ] {
            assert!(FromProgram::read(line.as_bytes()).is_err(), "{line:?}");
        }
        assert!(FromProgram::read(b"{\"type\":\"status\",\"phase\":\"\xff\"}").is_err());
    }
}
