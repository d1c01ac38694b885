//! What happened to a task, in a line.

use super::show_task::artifact_line;
use super::text::{block, content, raw_block, short, status};
use crate::show::{Show, below, clock, cut, printable_line};
use client::ReceivedEvent;
use proto_schemas::requests::task::{TaskArtifact, TaskObject};
use serde::Deserialize as _;
use serde_json::Value;

/// How a task stands now; which one, where several are watched.
pub(super) fn state_line(show: &Show, task: &TaskObject, several: bool, issuer: &str) -> String {
    let who = show.cyan(&short(&task.assignee, issuer));
    let mut about = vec![printable_line(&task.title)];
    about.extend(task.reason.as_deref().map(printable_line));
    if let Some(asked) = task.messages.last().filter(|_| task.status == "input_required") {
        about.push(format!("{} asks: {}", short(&asked.from, issuer), raw_block(&asked.body)));
    }
    about.retain(|part| !part.is_empty());
    let head = head(show, &task.updated_at, &task.status, several.then_some(task.task_id.as_str()));
    let line = format!("{head}  {who}  {}", about.join("  ")).trim_end().to_owned();
    // Whoever comes late sees the results, too.
    let artifacts = task.artifacts.iter().map(|artifact| with_content(show, artifact, issuer));
    let artifacts = artifacts.map(|text| format!("\n{text}"));
    line + &artifacts.collect::<String>()
}

/// What an event says; about which task, where several are watched.
pub(super) fn event_text(show: &Show, event: &ReceivedEvent, several: bool, issuer: &str) -> String {
    let params = &event.params;
    let word = |name: &str| params[name].as_str().unwrap_or_default();
    let name = |aid: &str| show.cyan(&short(aid, issuer));
    let actor = name(word("actor"));
    let reason = match printable_line(word("reason")) {
        reason if reason.is_empty() => reason,
        reason => format!(": {reason}"),
    };
    let text = match (event.method.as_str(), params.get("message")) {
        ("event/task.artifact", _) => match TaskArtifact::deserialize(&params["artifact"]) {
            Ok(artifact) => with_content(show, &artifact, issuer),
            Err(_) => format!("{actor} adds an artifact"),
        },
        ("event/task.delegated", _) => {
            let (child, to) = (printable_line(word("child_task_id")), name(word("assignee")));
            let optional = if params["required"] == false { " (optional)" } else { "" };
            format!("{actor} delegates to {to}{optional}  {}", show.dim(&child))
        }
        ("event/task.updated", Some(message)) if word("status") == "input_required" => {
            format!("{actor} asks: {}", block(message))
        }
        ("event/task.updated", Some(message)) => format!("{actor} says: {}", block(message)),
        ("event/task.completed", _) => {
            format!("by {actor}{}", unsuccessful(&params["unsuccessful_children"]))
        }
        _ => format!("by {actor}{reason}"),
    };
    let id = several.then(|| word("task_id"));
    format!("{}  {text}", head(show, word("updated_at"), word("status"), id))
}

fn head(show: &Show, at: &str, state: &str, id: Option<&str>) -> String {
    let id = id.map_or_else(String::new, |id| format!(" {}", show.dim(&printable_line(id))));
    format!("{}{id}  {}", show.dim(&clock(at)), status(show, state))
}

/// An artifact with what it contains, if the server sent that.
fn with_content(show: &Show, artifact: &TaskArtifact, issuer: &str) -> String {
    let line = artifact_line(show, artifact, issuer);
    match artifact.content.as_deref() {
        Some(raw) => format!("{line}\n{}", below(&cut(&content(raw)))),
        None => line,
    }
}

fn unsuccessful(children: &Value) -> String {
    match children.as_array().map_or(0, Vec::len) {
        0 => String::new(),
        1 => ", although one part of it was not completed".to_owned(),
        many => format!("; {many} of its parts were not completed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(name: &str, more: Value) -> String {
        let mut params = json!({ "task_id": "task_1", "status": "working", "version": 3, "actor": "bobb.a.example",
            "updated_at": "2026-03-21T13:01:00.5Z" });
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        let event = ReceivedEvent { method: format!("event/task.{name}"), params, text: String::new() };
        event_text(&Show::new(false, true), &event, false, "a.example")
    }

    #[test]
    fn an_event_is_a_line() {
        assert_eq!(shown("updated", json!({})), "13:01:00Z  working         by bobb");
        let asked =
            json!({ "status": "input_required", "message": { "type": "text", "content": "which\x1b?" } });
        assert_eq!(shown("updated", asked), "13:01:00Z  input_required  bobb asks: which\\u001b?");
        let said = json!({ "message": { "type": "text", "content": "7" }, "actor": "alice.b.example" });
        assert_eq!(shown("updated", said), "13:01:00Z  working         alice.b.example says: 7");
        let failed = json!({ "status": "failed", "reason": "no\ntime" });
        assert_eq!(shown("failed", failed), "13:01:00Z  failed          by bobb: no time");
        let delegated =
            json!({ "child_task_id": "task_2", "assignee": "carol.a.example", "required": false });
        let expected = "13:01:00Z  working         bobb delegates to carol (optional)  task_2";
        assert_eq!(shown("delegated", delegated), expected);
        let artifact = json!({ "id": "a", "type": "text", "content": "no risk", "size_bytes": 7,
            "created_by": "bobb.a.example", "created_at": "2026-03-21T13:01:00Z" });
        let artifact = json!({ "status": "completed", "artifact": artifact });
        let expected = "13:01:00Z  completed       artifact a (text, 7 bytes) by bobb\n    no risk";
        assert_eq!(shown("artifact", artifact), expected);
        let completed = json!({ "status": "completed", "artifacts": [], "unsuccessful_children": [{}] });
        let expected = "13:01:00Z  completed       by bobb, although one part of it was not completed";
        assert_eq!(shown("completed", completed), expected);
    }
}
