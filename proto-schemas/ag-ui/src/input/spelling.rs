//! The two spellings of a member, and null for one that is absent: what is read further has one form.
//!
//! The protocol writes camelCase. Clients in Python may write snake_case, and older ones write null for what they do not have.

use super::json::{JsonContent, JsonNode};

/// The members of an object that the protocol names. What is inside the others belongs to who wrote it, and stays as it is.
struct Shape {
    names: &'static [&'static str],
    inner: &'static [(&'static str, ShapedMember)],
}

/// What a member holds that has a shape.
enum ShapedMember {
    Object(&'static Shape),
    Items(&'static Shape),
}

use ShapedMember::{Items, Object};

const INPUT: Shape = Shape {
    names: &[
        "threadId",
        "runId",
        "parentRunId",
        "protocolVersion",
        "state",
        "messages",
        "tools",
        "context",
        "forwardedProps",
        "resume",
    ],
    inner: &[
        ("messages", Items(&MESSAGE)),
        ("tools", Items(&TOOL)),
        ("context", Items(&CONTEXT)),
        ("forwardedProps", Object(&FORWARDED_PROPS)),
        ("resume", Items(&RESUME)),
    ],
};

const MESSAGE: Shape = Shape {
    names: &[
        "id",
        "role",
        "content",
        "name",
        "encryptedValue",
        "toolCalls",
        "toolCallId",
        "error",
        "activityType",
        "subagentRunId",
        "metadata",
    ],
    // The content of an activity is an object of its own kind, and has no shape.
    inner: &[("content", Items(&BLOCK)), ("toolCalls", Items(&TOOL_CALL))],
};

const BLOCK: Shape = Shape {
    names: &["type", "id", "text", "mimeType", "url", "data", "filename", "source", "metadata"],
    inner: &[("source", Object(&SOURCE))],
};

const SOURCE: Shape = Shape { names: &["type", "value", "mimeType", "provider"], inner: &[] };

const TOOL_CALL: Shape =
    Shape { names: &["id", "type", "function", "encryptedValue", "metadata"], inner: &[] };

const TOOL: Shape = Shape { names: &["name", "description", "parameters", "metadata"], inner: &[] };

const CONTEXT: Shape = Shape { names: &["description", "value"], inner: &[] };

const RESUME: Shape = Shape { names: &["interruptId", "status", "payload", "metadata"], inner: &[] };

// The protocol has one spelling for these.
const FORWARDED_PROPS: Shape =
    Shape { names: &["runtime_mode", "client_time"], inner: &[("client_time", Object(&CLIENT_TIME))] };

const CLIENT_TIME: Shape =
    Shape { names: &["device_timezone", "client_now_iso", "client_epoch_ms"], inner: &[] };

/// Writes an input in camelCase, without members that are null, and without those at the top that are unknown. The error is the
/// name of a member that has both spellings.
pub(super) fn normalize(input: &mut JsonNode) -> Result<(), &'static str> {
    rewrite(input, &INPUT)?;
    if let JsonContent::Members(members) = &mut input.value {
        members.retain(|(name, _)| INPUT.names.contains(&name.as_str()));
    }
    Ok(())
}

fn rewrite(node: &mut JsonNode, shape: &Shape) -> Result<(), &'static str> {
    let JsonContent::Members(members) = &mut node.value else { return Ok(()) };
    for &camel in shape.names {
        let snake = snake_case(camel);
        let has = |spelling: &str| members.iter().any(|(name, _)| name == spelling);
        if snake == camel || !has(&snake) {
            continue;
        }
        if has(camel) {
            return Err(camel);
        }
        for (name, _) in members.iter_mut().filter(|(name, _)| *name == snake) {
            camel.clone_into(name);
        }
    }
    members.retain(|(name, member)| !(member.is_null() && shape.names.contains(&name.as_str())));

    for (name, member) in members {
        let inner = shape.inner.iter().find(|(inner, _)| inner == name);
        match (inner.map(|(_, inner)| inner), &mut member.value) {
            (Some(Items(shape)), JsonContent::Items(items)) => {
                items.iter_mut().try_for_each(|item| rewrite(item, shape))?;
            }
            (Some(Object(shape)), _) => rewrite(member, shape)?,
            _ => (),
        }
    }
    Ok(())
}

fn snake_case(camel: &str) -> String {
    let mut snake = String::with_capacity(camel.len() + 4);
    for next in camel.chars() {
        if next.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(next.to_ascii_lowercase());
    }
    snake
}
