//! The items of a turn: messages, thoughts, commands, changes of files and calls of tools.

use crate::back_end::{BackEndEvent, ToolProgress, ToolStatus, WrittenStream};
use serde_json::{Value, json};

/// What began.
pub(super) fn started(item: &Value) -> Option<BackEndEvent> {
    tool(item).map(|(name, args)| {
        BackEndEvent::Tool(ToolProgress {
            call_id: id(item),
            name,
            status: ToolStatus::Started,
            args: Some(args),
            output: None,
            exit_code: None,
        })
    })
}

/// What ended. The output of a command is said once: while it came, or now.
pub(super) fn completed(item: &Value, has_said_output: bool) -> Vec<BackEndEvent> {
    let mut events = Vec::new();
    match item["type"].as_str() {
        Some("agentMessage") => {
            let text = words(&item["text"]);
            events.extend((!text.is_empty()).then(|| BackEndEvent::Message { item_id: id(item), text }));
        }
        Some("reasoning") => {
            let text = thought(item);
            events.extend((!text.is_empty()).then(|| BackEndEvent::Reasoning { item_id: id(item), text }));
        }
        Some("commandExecution") if !has_said_output => {
            let text = words(&item["aggregatedOutput"]);
            let stream = WrittenStream::Stdout;
            events.extend((!text.is_empty()).then_some(BackEndEvent::Written { stream, text }));
        }
        _ => {}
    }
    if let Some((name, _)) = tool(item) {
        let status = item["status"].as_str().unwrap_or_default();
        events.push(BackEndEvent::Tool(ToolProgress {
            call_id: id(item),
            name,
            status: if status == "completed" { ToolStatus::Completed } else { ToolStatus::Failed },
            args: None,
            output: output(item).or_else(|| (status == "declined").then(|| status.into())),
            exit_code: item["exitCode"].as_i64(),
        }));
    }
    events
}

/// The files that an item is about, for a question about it.
pub(super) fn files(item: &Value) -> Option<String> {
    let changes = item["changes"].as_array()?;
    let paths: Vec<&str> = changes.iter().filter_map(|change| change["path"].as_str()).take(20).collect();
    (!paths.is_empty()).then(|| paths.join(", "))
}

/// The name and the arguments of a tool, if the item is one.
fn tool(item: &Value) -> Option<(String, Value)> {
    let kind = item["type"].as_str()?;
    match kind {
        "commandExecution" => {
            Some((kind.to_owned(), json!({ "command": item["command"], "cwd": item["cwd"] })))
        }
        "fileChange" => Some((kind.to_owned(), json!({ "changes": item["changes"] }))),
        "mcpToolCall" => {
            let name = format!("{}/{}", words(&item["server"]), words(&item["tool"]));
            Some((name, item["arguments"].clone()))
        }
        _ => None,
    }
}

fn output(item: &Value) -> Option<Value> {
    let name = match item["type"].as_str()? {
        "commandExecution" => "aggregatedOutput",
        "mcpToolCall" if item["error"].is_null() => "result",
        "mcpToolCall" => "error",
        _ => return None,
    };
    Some(item[name].clone()).filter(|output| !output.is_null())
}

/// The summary of a thought, or the thought.
fn thought(item: &Value) -> String {
    let joined = |name: &str| {
        let parts = item[name].as_array().into_iter().flatten();
        parts.filter_map(Value::as_str).collect::<Vec<_>>().join("\n\n")
    };
    match joined("summary") {
        summary if summary.is_empty() => joined("content"),
        summary => summary,
    }
}

fn id(item: &Value) -> String {
    words(&item["id"])
}

fn words(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool_of(events: &[BackEndEvent]) -> &ToolProgress {
        let Some(BackEndEvent::Tool(tool)) = events.last() else { panic!("{events:?}") };
        tool
    }

    #[test]
    fn a_command_is_a_tool_whose_output_is_said_once() {
        let item = json!({
            "type": "commandExecution", "id": "c", "command": "ls", "cwd": "/w", "status": "failed",
            "aggregatedOutput": "no\n", "exitCode": 2,
        });
        let Some(BackEndEvent::Tool(began)) = started(&item) else { panic!("{item}") };
        assert_eq!(
            (began.name.as_str(), began.status, began.args),
            ("commandExecution", ToolStatus::Started, Some(json!({ "command": "ls", "cwd": "/w" })))
        );
        let events = completed(&item, false);
        let written = BackEndEvent::Written { stream: WrittenStream::Stdout, text: "no\n".to_owned() };
        assert_eq!(events[0], written);
        let tool = tool_of(&events);
        assert_eq!(
            (tool.status, tool.exit_code, &tool.output),
            (ToolStatus::Failed, Some(2), &Some("no\n".into()))
        );
        assert_eq!(completed(&item, true).len(), 1);
        let declined = json!({ "type": "commandExecution", "id": "c", "status": "declined" });
        assert_eq!(tool_of(&completed(&declined, false)).output, Some("declined".into()));
    }

    #[test]
    fn calls_of_servers_and_changes_of_files_are_tools() {
        let call = json!({
            "type": "mcpToolCall", "id": "m", "server": "files", "tool": "read", "arguments": { "a": 1 },
            "status": "completed", "result": { "content": [] }, "error": null,
        });
        let tool = tool_of(&completed(&call, false)).clone();
        assert_eq!((tool.name.as_str(), tool.status), ("files/read", ToolStatus::Completed));
        assert_eq!(tool.output, Some(json!({ "content": [] })));
        let change = json!({
            "type": "fileChange", "id": "f", "status": "completed",
            "changes": [{ "path": "/w/a" }, { "path": "/w/b" }],
        });
        assert_eq!(tool_of(&completed(&change, false)).status, ToolStatus::Completed);
        assert_eq!(files(&change).as_deref(), Some("/w/a, /w/b"));
    }

    #[test]
    fn messages_and_thoughts_are_said_whole() {
        let message = json!({ "type": "agentMessage", "id": "m", "text": "hello" });
        assert_eq!(
            completed(&message, false),
            [BackEndEvent::Message { item_id: "m".to_owned(), text: "hello".to_owned() }]
        );
        let thought =
            |summary: Value| json!({ "type": "reasoning", "id": "r", "summary": summary, "content": ["c"] });
        let said = |text: &str| [BackEndEvent::Reasoning { item_id: "r".to_owned(), text: text.to_owned() }];
        assert_eq!(completed(&thought(json!(["a", "b"])), false), said("a\n\nb"));
        assert_eq!(completed(&thought(json!([])), false), said("c"));
        for nothing in [
            json!({ "type": "userMessage", "id": "u", "content": [] }),
            json!({ "type": "reasoning", "id": "r" }),
            json!({ "type": "agentMessage", "id": "m", "text": "" }),
            json!({ "type": "of tomorrow" }),
            json!([]),
        ] {
            assert_eq!((completed(&nothing, false), started(&nothing)), (Vec::new(), None), "{nothing}");
        }
    }
}
