//! A tool call, as it arrives.

use crate::error::Error;
use proto_schemas::Aid;
use proto_schemas::tool_call::MessageMarks;
use serde_json::Value;
use serde_json::value::to_raw_value;

/// So many characters the id of a call has at most.
const CALL_ID_CHARS: usize = 128;

/// A decrypted message in which an agent asks for a tool, with what its envelope says.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedToolCall {
    /// Who asks: the sender of the message, never something that its payload says.
    pub agent: Aid,
    /// The conversation: what the message calls it, else that with the agent.
    pub conversation: String,
    /// Whether it came in a group, where nobody has consented to anything.
    pub in_group: bool,
    /// Whether the envelope says that it is a tool call.
    pub is_marked: bool,
    /// Unique per agent.
    pub call_id: String,
    /// Which tool.
    pub tool_name: String,
    /// With what.
    pub arguments: Value,
    /// The scope that the agent believes it needs.
    pub permission_scope: Option<String>,
    /// How long the agent waits.
    pub timeout_ms: Option<u64>,
}

impl ReceivedToolCall {
    /// Reads a message as it is pulled, with its decrypted payload. None if it is no tool call; an error if it is one that cannot be
    /// answered, because it has no sender or no id.
    ///
    /// The members of the call are in the artifact; those in `artifact.payload` are read where they are not.
    pub fn read(message: &Value) -> Result<Option<ReceivedToolCall>, Error> {
        let artifact = &message["payload"]["artifact"];
        let member = |name: &str| artifact.get(name).or_else(|| artifact.get("payload")?.get(name));
        let text = |name: &str| member(name).and_then(Value::as_str);
        if message["payload"]["type"] != "artifact" || text("subtype") != Some("tool_call") {
            return Ok(None);
        }
        let call_id = text("call_id").filter(|id| (1..=CALL_ID_CHARS).contains(&id.chars().count()));
        let call_id = call_id.ok_or_else(|| {
            Error::Invalid("the tool call has no call_id of 1 to 128 characters".to_owned())
        })?;
        let sender = in_envelope(message, &["from", "from_aid", "sender_aid"]).and_then(Value::as_str);
        let sender = sender.ok_or_else(|| Error::Invalid("the tool call has no sender".to_owned()))?;
        let agent = Aid::parse(sender)?;
        let conversation = in_envelope(message, &["conversation_id"]).and_then(Value::as_str);
        Ok(Some(ReceivedToolCall {
            conversation: conversation.unwrap_or(agent.as_str()).to_owned(),
            in_group: in_envelope(message, &["group_id", "group_aid"]).is_some(),
            is_marked: is_marked(message),
            call_id: call_id.to_owned(),
            tool_name: text("tool_name").unwrap_or_default().to_owned(),
            arguments: member("arguments").cloned().unwrap_or_default(),
            permission_scope: text("permission_scope").map(str::to_owned),
            timeout_ms: member("timeout_ms").and_then(Value::as_u64),
            agent,
        }))
    }
}

/// The first of these members that a message has: of itself, or of the `envelope` in which SDKs repeat them.
fn in_envelope<'m>(message: &'m Value, names: &[&str]) -> Option<&'m Value> {
    let mut envelopes = [Some(message), message.get("envelope")].into_iter().flatten();
    envelopes.find_map(|envelope| {
        names.iter().find_map(|name| envelope.get(name).filter(|value| !value.is_null()))
    })
}

/// Whether the server could see that it is a tool call: what it counts by is what is looked for here.
fn is_marked(message: &Value) -> bool {
    let envelopes = [Some(message), message.get("envelope")];
    envelopes.into_iter().flatten().any(|envelope| {
        let raw = |name: &str| envelope.get(name).and_then(|value| to_raw_value(value).ok());
        let (headers, protected_headers) = (raw("headers"), raw("protected_headers"));
        let marks = MessageMarks {
            msg_subtype: envelope["msg_subtype"].as_str(),
            headers: headers.as_deref(),
            protected_headers: protected_headers.as_deref(),
            ..MessageMarks::default()
        };
        marks.is_tool_call()
    })
}
