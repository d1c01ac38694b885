//! What a back end is asked.

use super::attachment::{NamedAttachment, TurnAttachment};
use proto_schemas::requests::run::CommandRecord;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// One turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnRequest {
    pub command_id: String,
    pub text: String,
    /// Files that the runner has fetched. Never paths that a client names.
    pub images: Vec<TurnImage>,
    pub context: Vec<Value>,
    pub tools: Vec<Value>,
    /// An IANA name.
    pub timezone: Option<String>,
    pub mode: Option<String>,
}

/// An image on the machine of the runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnImage {
    pub path: PathBuf,
    pub mime_type: String,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalAnswer {
    pub approval_id: String,
    pub decision: String,
    pub payload: Option<Value>,
}

/// A turn as a command asks for it: it begins when the images that it names are there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AskedTurn {
    /// Without images.
    pub request: TurnRequest,
    pub attachments: Vec<TurnAttachment>,
}

/// The payload of a command as far as runners read it. Whatever else it has is for others.
#[derive(Deserialize)]
struct PromptPayload {
    prompt: Option<String>,
    message: Option<String>,
    text: Option<String>,
    context: Option<Vec<Value>>,
    tools: Option<Vec<Value>>,
    timezone: Option<String>,
    mode: Option<String>,
    attachments: Option<Vec<NamedAttachment>>,
}

/// The turn that a command asks for.
pub(crate) fn turn_of(command: &CommandRecord) -> Result<AskedTurn, String> {
    let payload = payload_of(command)?;
    let text = payload.prompt.or(payload.message).or(payload.text);
    let attachments = NamedAttachment::all(payload.attachments.unwrap_or_default())?;
    let request = TurnRequest {
        command_id: command.command_id.clone(),
        text: text.ok_or("the command has no text")?,
        images: Vec::new(),
        context: payload.context.unwrap_or_default(),
        tools: payload.tools.unwrap_or_default(),
        timezone: payload.timezone,
        mode: payload.mode,
    };
    Ok(AskedTurn { request, attachments })
}

/// The text of a command.
pub(crate) fn text_of(command: &CommandRecord) -> Result<String, String> {
    turn_of(command).map(|turn| turn.request.text)
}

fn payload_of(command: &CommandRecord) -> Result<PromptPayload, String> {
    serde_json::from_str(command.payload.get())
        .map_err(|error| format!("the payload cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_commands::command;
    use serde_json::json;

    #[test]
    fn a_turn_has_its_text_under_one_of_three_names() {
        for payload in
            [json!({ "prompt": "x" }), json!({ "message": "x" }), json!({ "text": "x", "prompt": null })]
        {
            assert_eq!(turn_of(&command(1, "turn", payload)).unwrap().request.text, "x");
        }
        let whole = json!({
            "prompt": "x", "context": [{ "value": 1 }], "tools": [], "timezone": "Europe/Berlin", "mode": "chat",
            "images": [{ "path": "/etc/passwd", "mimeType": "image/png" }],
        });
        let AskedTurn { request: turn, attachments } = turn_of(&command(1, "turn", whole)).unwrap();
        assert_eq!(
            (turn.context.len(), turn.timezone.as_deref(), turn.mode.as_deref()),
            (1, Some("Europe/Berlin"), Some("chat"))
        );
        assert!(turn.images.is_empty() && attachments.is_empty(), "a client names no files of this machine");
        let attachments = json!([{ "attachmentId": "a/1.png", "mimeType": "image/png" }]);
        let turn =
            turn_of(&command(1, "turn", json!({ "prompt": "x", "attachments": attachments }))).unwrap();
        assert_eq!((turn.attachments.len(), turn.request.images.len()), (1, 0));
        for payload in [
            json!({}),
            json!({ "prompt": 7 }),
            json!({ "prompt": "x", "context": "y" }),
            json!({ "prompt": "x", "attachments": "y" }),
        ] {
            assert!(turn_of(&command(1, "turn", payload.clone())).is_err(), "{payload}");
        }
    }
}
