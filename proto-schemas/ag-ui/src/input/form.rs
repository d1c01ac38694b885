//! The form of an input: which members there are, and of which types. All violations are found, not only the first.

use super::InputRules;
use super::json::{self, JsonContent, JsonNode};
use super::members::MemberReader;
use super::refusal::{FormViolations, InputRefused};
use super::spelling;
use serde_json::Value;

const ROLES: &[&str] = &["user", "assistant", "system", "developer", "tool", "reasoning", "activity"];

/// `binary` is the protocol's, the four after it are those of AG-UI 1.0.
const BLOCKS: &[&str] = &["text", "binary", "image", "audio", "video", "document"];

/// Reads an input whose form is right, with one spelling for each member.
pub(super) fn read(json: &[u8], rules: InputRules) -> Result<Value, InputRefused> {
    let mut found = FormViolations::default();
    let Some(mut input) = json::read(json) else {
        found.add(0, "", "RunAgentInput must be valid JSON, nested at most 127 levels deep");
        return Err(found.into_refusal());
    };
    json::find_repeated(&input, &mut found);
    spelling::normalize(&mut input)
        .map_err(|camel| InputRefused { detail: format!("duplicate field: {camel}"), errors: Vec::new() })?;
    check(&input, rules, &mut found);
    if found.is_empty() { Ok(input.into_value()) } else { Err(found.into_refusal()) }
}

fn check(input: &JsonNode, rules: InputRules, found: &mut FormViolations) {
    let Some(mut input) = MemberReader::new(input, String::new(), found) else { return };
    input.text("threadId");
    input.text("runId");
    input.optional_text("parentRunId");
    input.optional_text("protocolVersion");
    if input.required("messages").is_some() {
        let last_user = last_user(input.get("messages"));
        input.each("messages", |message| check_message(message, rules, last_user));
    }
    input.each("tools", |tool| {
        tool.text("name");
        tool.text("description");
        tool.optional_object("parameters");
        // AG-UI 1.0 lets a tool have no parameters.
        if rules == InputRules::Strict {
            tool.required("parameters");
        }
    });
    input.each("context", |context| {
        context.text("description");
        context.text("value");
    });
    input.each("resume", |answer| {
        answer.text("interruptId");
        answer.word("status", &["resolved", "cancelled"]);
    });
}

fn check_message(message: &mut MemberReader<'_, '_>, rules: InputRules, last_user: Option<u32>) {
    message.text("id");
    for name in ["name", "encryptedValue", "error"] {
        message.optional_text(name);
    }
    match message.word("role", ROLES) {
        Some("user") => {
            message.text_or_each("content", check_block);
            if message
                .get("content")
                .is_some_and(|content| Some(content.at) == last_user && is_empty(content))
            {
                message.refuse("content", "content must have text or an attachment");
            }
        }
        Some("assistant") => {
            message.optional_text("content");
            message.each("toolCalls", check_tool_call);
        }
        Some("tool") => {
            // AG-UI 1.0 lets a tool answer with content blocks, and its clients send back what they were sent.
            if rules == InputRules::Lenient {
                message.text_or_each("content", check_block);
            } else {
                message.text("content");
            }
            message.text("toolCallId");
        }
        Some("activity") => {
            message.text("activityType");
            message.object("content");
        }
        Some(_) => {
            message.text("content");
        }
        None => (),
    }
}

fn check_tool_call(call: &mut MemberReader<'_, '_>) {
    call.text("id");
    call.word("type", &["function"]);
    call.optional_text("encryptedValue");
    if let Some(mut function) = call.object("function") {
        function.text("name");
        function.text("arguments");
    }
}

/// Whether a block has what it needs to be shown to an agent is checked later, and has sentences of its own.
fn check_block(block: &mut MemberReader<'_, '_>) {
    block.optional_text("id");
    match block.word("type", BLOCKS) {
        Some("text") => {
            block.text("text");
        }
        Some("binary") => {
            for name in ["mimeType", "url", "data", "filename"] {
                block.optional_text(name);
            }
        }
        Some(_) => {
            if let Some(mut source) = block.object("source") {
                source.word("type", &["url", "data", "file"]);
                source.optional_text("value");
                source.optional_text("mimeType");
            }
        }
        None => (),
    }
}

/// Where the content of the last user message stands: it is the turn. Those before it may be empty, because they are history.
fn last_user(messages: Option<&JsonNode>) -> Option<u32> {
    let JsonContent::Items(messages) = &messages?.value else { return None };
    let mut from_users =
        messages.iter().filter(|message| message.member("role").and_then(JsonNode::as_str) == Some("user"));
    Some(from_users.next_back()?.member("content")?.at)
}

fn is_empty(content: &JsonNode) -> bool {
    let says = |block: &JsonNode, name, text| block.member(name).and_then(JsonNode::as_str) == Some(text);
    let is_empty_text = |block: &JsonNode| says(block, "type", "text") && says(block, "text", "");
    match &content.value {
        JsonContent::Scalar(_) => content.as_str() == Some(""),
        JsonContent::Items(blocks) => blocks.iter().all(is_empty_text),
        JsonContent::Members(_) => false,
    }
}
