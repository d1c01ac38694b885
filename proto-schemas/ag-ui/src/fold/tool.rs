//! Calls of tools. A call is whole when it begins, so it is never open between two events; its result comes later.

use super::event::AgUiEvent;
use super::frame::FrameWriter;
use super::happened::{CallStatus, Called};
use super::ids::ShownIds;
use serde_json::Value;
use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
pub(super) struct ToolCalls {
    calls: HashMap<String, ToolCall>,
}

/// The last call of an id. Back ends may use an id for one call after the other.
#[derive(Clone, Debug)]
struct ToolCall {
    shown_id: String,
    has_result: bool,
}

impl ToolCalls {
    /// Whether there is something to show: not the same beginning or end once more.
    pub fn is_new(&self, call: &Called) -> bool {
        self.calls.get(&call.call_id).is_none_or(|known| known.has_result != call.status.is_end())
    }

    pub fn show(&mut self, call: &Called, parent: Option<&str>, ids: &mut ShownIds, out: &mut FrameWriter) {
        let has_result = call.status.is_end();
        let running = self.calls.get(&call.call_id).filter(|known| !known.has_result);
        let shown_id = match running {
            Some(known) => known.shown_id.clone(),
            None => {
                let shown_id = ids.of(&call.call_id);
                start(call, &shown_id, parent, out);
                shown_id
            }
        };
        if has_result {
            out.say(&AgUiEvent::ToolCallResult {
                message_id: &ids.of_message(&format!("{shown_id}-result")),
                tool_call_id: &shown_id,
                content: &content(call),
                role: "tool",
            });
        }
        self.calls.insert(call.call_id.clone(), ToolCall { shown_id, has_result });
    }

    /// The id under which a call is shown.
    pub fn shown_id<'a>(&'a self, call_id: &'a str) -> &'a str {
        self.calls.get(call_id).map_or(call_id, |call| &call.shown_id)
    }
}

fn start(call: &Called, tool_call_id: &str, parent: Option<&str>, out: &mut FrameWriter) {
    let tool_call_name = call.tool_name.as_deref().unwrap_or("tool");
    out.say(&AgUiEvent::ToolCallStart { tool_call_id, tool_call_name, parent_message_id: parent });
    if let Some(args) = &call.args {
        out.say(&AgUiEvent::ToolCallArgs { tool_call_id, delta: &args.to_string() });
    }
    out.say(&AgUiEvent::ToolCallEnd { tool_call_id });
}

fn content(call: &Called) -> String {
    match &call.output {
        Some(Value::String(text)) => text.clone(),
        Some(output) => output.to_string(),
        None if call.status == CallStatus::Failed => "failed".to_owned(),
        None => String::new(),
    }
}
