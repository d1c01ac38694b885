//! What happened in a run, in a line.

use super::text::{failure, options, text_of};
use crate::show::{Show, clock, printable_line};
use proto_schemas::requests::run::{RunEvent, RunEventType};
use serde_json::Value;

/// `13:00:00Z #4  says: Hello`. What others wrote is made safe for a terminal, and its further lines are indented.
pub(super) fn event_text(show: &Show, event: &RunEvent) -> String {
    let payload = serde_json::from_str(event.payload.get()).unwrap_or_default();
    let head = format!("{} #{}", clock(&event.created_at), event.seq);
    format!("{}  {}", show.dim(&head), said(show, event, &payload))
}

/// Whether it is the last event of its run.
pub(super) fn ends_run(event: &RunEvent) -> bool {
    let payload: Value = serde_json::from_str(event.payload.get()).unwrap_or_default();
    event.kind == RunEventType::TerminalStatus && payload["scope"] == "run"
}

fn said(show: &Show, event: &RunEvent, payload: &Value) -> String {
    let field = |name: &str| printable_line(payload[name].as_str().unwrap_or_default());
    match event.kind {
        RunEventType::AssistantMessage => {
            let verb = match payload {
                said if said["partial"] == true => "writes",
                said if said["replyAuthority"] == true || said["final"] == true => "replies",
                _ => "says",
            };
            let verb = show.cyan(verb);
            format!("{verb}: {}{}", text_of(payload, &["text"]), cut(payload, "textTruncated"))
        }
        RunEventType::CommandOutput => {
            format!("{}: {}{}", field("stream"), text_of(payload, &["text"]), cut(payload, "outputTruncated"))
        }
        RunEventType::ToolCall => tool(payload),
        RunEventType::Reasoning => format!("thinks: {}", text_of(payload, &["text", "summary"])),
        RunEventType::Plan => format!("plans: {}", text_of(payload, &["text", "explanation"])),
        RunEventType::Diff => format!("changes files: {}", text_of(payload, &["diff", "text"])),
        RunEventType::BackendStatus => {
            joined(&["back end".to_owned(), field("phase"), field("stage"), field("method")])
        }
        RunEventType::RunnerStatus => match payload["phase"].as_str() {
            Some("claim-waiting") => {
                format!("{} waits: {} has the lease", field("runnerId"), field("ownerRunnerId"))
            }
            Some("claim-recovered") => {
                format!(
                    "{} takes over: the lease of {} has expired",
                    field("runnerId"),
                    field("previousRunnerId")
                )
            }
            _ => joined(&[field("runnerId"), field("phase")]),
        },
        RunEventType::SteerDelivery => match payload["backendAccepted"] == true {
            true => format!("guidance reached {}", field("targetCommandId")),
            false => format!("guidance was not accepted: {}", text_of(payload, &["error"])),
        },
        RunEventType::ApprovalRequest => {
            let own = payload["options"].as_array().map(Vec::as_slice).unwrap_or_default();
            let options = options(own.iter().filter_map(Value::as_str));
            let asked = text_of(payload, &["message", "reason"]);
            let question = format!("asks: {asked}  ({options})  {}", show.bold(&field("approvalId")));
            show.yellow("?") + " " + &question
        }
        RunEventType::ApprovalResolved => {
            joined(&["answered".to_owned(), field("approvalId"), field("decision"), by(&field("by"))])
        }
        RunEventType::Error => format!("{}: {}", show.yellow("error"), failed(payload)),
        RunEventType::TerminalStatus => {
            let what = match &event.command_id {
                Some(command) if payload["scope"] != "run" => printable_line(command),
                _ => "the run".to_owned(),
            };
            let (status, why) = (field("status"), failed(payload));
            let status = if status == "completed" { show.green(&status) } else { show.yellow(&status) };
            let line = format!("{what} is {status}");
            if why.is_empty() { line } else { format!("{line}: {why}") }
        }
    }
}

/// `calls clock (completed, exit code 0)  date`.
fn tool(payload: &Value) -> String {
    let names = ["toolName", "method", "type"].iter().filter_map(|name| payload[name].as_str());
    let name = names.map(printable_line).find(|name| !name.is_empty()).unwrap_or_else(|| "a tool".to_owned());
    let status = printable_line(payload["status"].as_str().unwrap_or_default());
    let code = payload["exitCode"].as_i64().map(|code| format!("exit code {code}"));
    let about: Vec<String> =
        [Some(status).filter(|status| !status.is_empty()), code].into_iter().flatten().collect();
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
    let command = payload["command"].as_str().map(printable_line).unwrap_or_default();
    format!("calls {name}{about}  {command}").trim_end().to_owned()
}

fn failed(payload: &Value) -> String {
    failure(payload["failureKind"].as_str(), payload["message"].as_str())
}

fn by(who: &str) -> String {
    if who.is_empty() { String::new() } else { format!("by {who}") }
}

fn cut(payload: &Value, member: &str) -> &'static str {
    if payload[member] == true { " (truncated)" } else { "" }
}

fn joined(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(kind: &str, payload: &Value) -> RunEvent {
        let event = json!({ "eventId": "evt_1", "runId": "run_1", "seq": 4, "type": kind, "commandId": "cmd_1",
            "attemptId": null, "payload": payload, "createdAt": "2026-03-21T13:00:00.120Z" });
        serde_json::from_str(&event.to_string()).unwrap()
    }

    fn line(kind: &str, payload: Value) -> String {
        let line = event_text(&Show::new(false, true), &event(kind, &payload));
        line.strip_prefix("13:00:00Z #4  ").unwrap().to_owned()
    }

    #[test]
    fn an_event_is_a_line_in_words() {
        for (kind, payload, expected) in [
            ("assistant_message", json!({ "text": "Bo", "partial": true, "itemId": "m" }), "writes: Bo"),
            ("assistant_message", json!({ "text": "Bonn" }), "says: Bonn"),
            (
                "assistant_message",
                json!({ "text": "B", "final": true, "textTruncated": true }),
                "replies: B (truncated)",
            ),
            ("command_output", json!({ "stream": "stderr", "text": "no" }), "stderr: no"),
            (
                "tool_call",
                json!({ "callId": "c", "toolName": "shell", "status": "completed", "exitCode": 0, "command": "ls\n-l" }),
                "calls shell (completed, exit code 0)  ls -l",
            ),
            ("tool_call", json!({ "callId": "c" }), "calls a tool"),
            ("reasoning", json!({ "text": "hm" }), "thinks: hm"),
            ("plan", json!({ "steps": [1] }), r#"plans: {"steps":[1]}"#),
            ("diff", json!({ "diff": "+a" }), "changes files: +a"),
            (
                "backend_status",
                json!({ "phase": "stage-started", "stage": "worker" }),
                "back end stage-started worker",
            ),
            (
                "runner_status",
                json!({ "phase": "claim-waiting", "runnerId": "runner_2", "ownerRunnerId": "runner_1" }),
                "runner_2 waits: runner_1 has the lease",
            ),
            (
                "runner_status",
                json!({ "phase": "claim-recovered", "runnerId": "runner_2", "previousRunnerId": "runner_1" }),
                "runner_2 takes over: the lease of runner_1 has expired",
            ),
            (
                "steer_delivery",
                json!({ "backendAccepted": true, "targetCommandId": "cmd_1" }),
                "guidance reached cmd_1",
            ),
            (
                "steer_delivery",
                json!({ "backendAccepted": false, "error": "no turn" }),
                "guidance was not accepted: no turn",
            ),
            (
                "approval_request",
                json!({ "approvalId": "ap-1", "reason": "tool", "options": ["yes", "no"] }),
                "? asks: tool  (yes, no)  ap-1",
            ),
            (
                "approval_resolved",
                json!({ "approvalId": "ap-1", "decision": "yes", "by": "operator" }),
                "answered ap-1 yes by operator",
            ),
            (
                "error",
                json!({ "failureKind": "backend-failed", "message": "gone" }),
                "error: backend-failed: gone",
            ),
            ("terminal_status", json!({ "status": "completed", "scope": "command" }), "cmd_1 is completed"),
            (
                "terminal_status",
                json!({ "status": "cancelled", "scope": "run", "failureKind": "cancelled" }),
                "the run is cancelled",
            ),
        ] {
            assert_eq!(line(kind, payload), expected, "{kind}");
        }
    }

    #[test]
    fn what_others_wrote_is_safe_for_a_terminal() {
        let line =
            line("assistant_message", json!({ "text": "a\x1b[2J\n13:00:00Z #5  the run is completed" }));
        assert_eq!(line, "says: a\\u001b[2J\n    13:00:00Z #5  the run is completed");
    }

    #[test]
    fn only_the_end_of_the_run_ends_it() {
        assert!(ends_run(&event("terminal_status", &json!({ "status": "failed", "scope": "run" }))));
        assert!(!ends_run(&event("terminal_status", &json!({ "status": "failed", "scope": "command" }))));
        assert!(!ends_run(&event("error", &json!({ "scope": "run" }))));
    }
}
