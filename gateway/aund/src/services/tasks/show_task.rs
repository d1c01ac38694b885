//! `aund tasks show`: everything about a task.

use super::caller::{TaskCaller, read};
use super::text::{content, label, raw_block, short, status};
use crate::agent_args::AskingArgs;
use crate::output;
use crate::show::{Show, below, cut, printable, printable_line, time};
use anyhow::Context as _;
use clap::Args;
use proto_schemas::requests::task::{Get, TaskArtifact, TaskId, TaskMessage, TaskObject};

#[derive(Args)]
pub(super) struct ShowTaskCommand {
    /// The id of the task
    task: TaskId,
    /// Print only the content of this artifact
    #[arg(long, value_name = "ID")]
    artifact: Option<String>,
    #[command(flatten)]
    asking: AskingArgs,
}

impl ShowTaskCommand {
    pub async fn run(self) -> anyhow::Result<()> {
        let caller = TaskCaller::new(self.asking)?;
        let answer = caller.call(&Get { task_id: self.task, messages_after_seq: None }).await?;
        if let Some(id) = &self.artifact {
            return print_artifact(&read(answer)?, id);
        }
        if caller.show.json {
            caller.show.line(&answer.to_string())?;
            return Ok(());
        }
        let task: TaskObject = read(answer)?;
        for line in lines(&caller.show, &task, caller.agent.aid.issuer()) {
            caller.show.line(&line)?;
        }
        Ok(())
    }
}

fn print_artifact(task: &TaskObject, id: &str) -> anyhow::Result<()> {
    let artifact = task.artifacts.iter().find(|artifact| artifact.id == id);
    let artifact = artifact.with_context(|| format!("the task has no artifact {id:?}"))?;
    let text = artifact.content.as_deref().map(content);
    let text = text.with_context(|| format!("the artifact {id:?} is stored elsewhere"))?;
    Ok(output::print_content(&text)?)
}

fn lines(show: &Show, task: &TaskObject, issuer: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let title = printable_line(&task.title);
    if !title.is_empty() {
        lines.push(show.bold(&title));
    }
    let mut field =
        |name: &str, value: String| lines.push(format!("{}{value}", show.dim(&format!("{name:10}"))));
    field("task", printable_line(&task.task_id));
    let version = format!("version {}", task.version);
    field("status", format!("{}, {version}", status(show, &task.status).replace(' ', "")));
    if let Some(reason) = task.reason.as_deref().filter(|reason| !reason.is_empty()) {
        field("reason", printable(reason));
    }
    field("owner", show.cyan(&printable_line(&task.owner)));
    field("assignee", show.cyan(&printable_line(&task.assignee)));
    let others = task.participants.iter().filter(|aid| **aid != task.owner && **aid != task.assignee);
    let others: Vec<String> = others.map(|aid| printable_line(aid)).collect();
    if !others.is_empty() {
        field("others", others.join(", "));
    }
    if let Some(parent) = &task.parent_task_id {
        let optional = if task.required { "" } else { ", optional" };
        field("part of", format!("{}{optional}", printable_line(parent)));
    }
    field("visible", printable_line(&task.visibility));
    field("created", time(&task.created_at));
    for (name, at) in [("accepted", &task.accepted_at), ("ended", &task.ended_at)] {
        if let Some(at) = at {
            field(name, time(at));
        }
    }
    if task.ended_at.is_none() {
        field("changed", time(&task.updated_at));
    }
    field("stored in", printable_line(&task.home_issuer));
    if task.content_removed == Some(true) {
        field("removed", "old texts or artifacts of an agent whose share was full".to_owned());
    }
    field("input", raw_block(&task.input));

    // The first message is the input.
    let said: Vec<&TaskMessage> = task.messages.iter().filter(|message| message.seq > 1).collect();
    if task.messages_truncated {
        lines.push(show.dim("…"));
    }
    lines.extend(said.into_iter().map(|message| said_line(show, message, issuer)));
    for artifact in &task.artifacts {
        lines.push(artifact_line(show, artifact, issuer));
        if let Some(raw) = artifact.content.as_deref() {
            lines.push(below(&cut(&content(raw))));
        }
    }
    for child in &task.children {
        let (status, id) = (status(show, &child.status), printable_line(&child.task_id));
        let (assignee, label) = (short(&child.assignee, issuer), label("", child.required));
        lines.push(format!("delegated {status}  {}  {}{label}", show.cyan(&assignee), show.dim(&id)));
    }
    lines
}

fn said_line(show: &Show, message: &TaskMessage, issuer: &str) -> String {
    let (at, from) = (show.dim(&time(&message.created_at)), show.cyan(&short(&message.from, issuer)));
    let asks = if message.kind == "prompt" { " asks" } else { "" };
    format!("{at} {from}{asks}: {}", raw_block(&message.body))
}

/// What is known of an artifact beside its content.
pub(super) fn artifact_line(show: &Show, artifact: &TaskArtifact, issuer: &str) -> String {
    let name = artifact.name.as_deref().filter(|name| !name.is_empty() && *name != artifact.id);
    let mut about = vec![artifact.mime_type.clone().unwrap_or_else(|| artifact.kind.clone())];
    about.extend(name.map(str::to_owned));
    about.extend(artifact.size_bytes.map(|bytes| format!("{bytes} bytes")));
    about.extend(artifact.reference.as_ref().map(|reference| format!("stored elsewhere: {reference}")));
    let (id, about) = (printable_line(&artifact.id), printable_line(&about.join(", ")));
    format!("artifact {} ({about}) by {}", show.bold(&id), show.cyan(&short(&artifact.created_by, issuer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn task() -> Value {
        let said = |seq: i64, from: &str, kind: &str, text: &str| {
            json!({ "seq": seq, "id": "m", "from": from, "kind": kind, "created_at": "2026-03-21T13:00:01Z",
                "body": { "type": "text", "content": text } })
        };
        json!({ "task_id": "task_1", "root_task_id": "task_1", "parent_task_id": null, "depth": 0, "status": "completed",
            "version": 5, "owner": "alice.a.example", "assignee": "bobb.a.example",
            "participants": ["alice.a.example", "bobb.a.example", "carol.b.example"], "visibility": "private",
            "required": true, "title": "Review \x1b[2Jit", "input": { "type": "text", "content": "please\nreview" },
            "artifacts": [{ "id": "summary.md", "type": "text", "mime_type": "text/markdown", "content": "no risk\nat all\x07",
                "size_bytes": 15, "created_by": "bobb.a.example", "created_at": "2026-03-21T13:00:03Z" }],
            "messages": [said(1, "alice.a.example", "input", "please\nreview"), said(2, "bobb.a.example", "prompt", "which?"),
                said(3, "alice.a.example", "input", "7")],
            "messages_truncated": false,
            "children": [{ "task_id": "task_2", "assignee": "dave.b.example", "status": "failed", "required": false }],
            "reason": null, "metadata": null, "created_at": "2026-03-21T13:00:00.25Z", "updated_at": "2026-03-21T13:00:03Z",
            "accepted_at": "2026-03-21T13:00:01Z", "ended_at": "2026-03-21T13:00:03Z", "home_issuer": "a.example" })
    }

    #[test]
    fn that_something_was_removed_is_shown() {
        let mut task = task();
        task["content_removed"] = json!(true);
        let task: TaskObject = serde_json::from_str(&task.to_string()).unwrap();
        let shown = lines(&Show::new(false, true), &task, "a.example").join("\n");
        assert!(shown.contains("\nremoved   old texts or artifacts of an agent"), "{shown}");
    }

    #[test]
    fn a_task_is_shown_with_what_was_said_and_what_came_out() {
        let task: TaskObject = serde_json::from_str(&task().to_string()).unwrap();
        let shown = lines(&Show::new(false, true), &task, "a.example").join("\n");
        let expected = "Review \\u001b[2Jit
task      task_1
status    completed, version 5
owner     alice.a.example
assignee  bobb.a.example
others    carol.b.example
visible   private
created   2026-03-21T13:00:00Z
accepted  2026-03-21T13:00:01Z
ended     2026-03-21T13:00:03Z
stored in a.example
input     please
    review
2026-03-21T13:00:01Z bobb asks: which?
2026-03-21T13:00:01Z alice: 7
artifact summary.md (text/markdown, 15 bytes) by bobb
    no risk
    at all\\u0007
delegated failed          dave.b.example  task_2  (optional)";
        assert_eq!(shown, expected);
    }
}
