//! Runs as a person reads them. Whatever others wrote is made safe for a terminal here.

use crate::show::{Show, cut, printable, printable_line};
use proto_schemas::requests::run::{LivenessPhase, RunApproval};
use serde::Serialize;
use serde_json::Value;

/// The longest name of a state.
const STATE: usize = "acknowledged".len();

/// A value of a set of words, as the protocol writes it.
pub(super) fn word(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().map(printable_line).unwrap_or_default()
}

/// A state of a run or a command, as wide as the longest.
pub(super) fn state(show: &Show, state: &str) -> String {
    let text = format!("{:STATE$}", printable_line(state));
    match state {
        "completed" => show.green(&text),
        "failed" | "blocked" => show.yellow(&text),
        "claimed" | "acknowledged" | "running" => show.cyan(&text),
        "cancelled" => show.dim(&text),
        _ => text,
    }
}

/// `backend-failed: asked to fail`, or one of both, or nothing. That something was cancelled is its status already.
pub(super) fn failure(kind: Option<&str>, message: Option<&str>) -> String {
    let parts = [kind.filter(|kind| *kind != "cancelled"), message]
        .into_iter()
        .flatten()
        .map(printable_line)
        .filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(": ")
}

/// What a run waits for.
pub(super) fn phase(phase: LivenessPhase) -> &'static str {
    match phase {
        LivenessPhase::Terminal => "it has ended",
        LivenessPhase::WaitingRunner => "no runner has taken it yet",
        LivenessPhase::RunnerHeartbeatStale => "its runner has not renewed the lease",
        LivenessPhase::TransportDisconnected => "the back end has lost its connection",
        LivenessPhase::WaitingApproval => "the back end waits for an answer",
        LivenessPhase::WaitingTool => "a tool is running",
        LivenessPhase::IdleAfterTool => "a tool has ended, and nothing has happened since",
        LivenessPhase::WaitingModel => "the back end is working",
    }
}

/// An open question, with what it can be answered with.
pub(super) fn question(show: &Show, approval: &RunApproval) -> String {
    let asked = approval.message.as_deref().filter(|message| !message.is_empty()).unwrap_or(&approval.reason);
    let options = options(approval.options.iter().map(String::as_str));
    let expires = approval.expires_at.as_deref().map(crate::show::time);
    let expires = expires.map_or_else(String::new, |at| format!(", until {at}"));
    let id = show.bold(&printable_line(&approval.approval_id));
    format!("{id} asks: {}  ({options}{expires})", printable(&cut(asked)))
}

/// The answers that a question takes.
pub(super) fn options<'a>(own: impl Iterator<Item = &'a str>) -> String {
    let own: Vec<String> = own.map(printable_line).collect();
    if own.is_empty() { "accept, decline, cancel".to_owned() } else { own.join(", ") }
}

/// A text of a payload under one of these names, or else the whole payload.
pub(super) fn text_of(payload: &Value, names: &[&str]) -> String {
    let found = names.iter().find_map(|name| payload[name].as_str().filter(|text| !text.is_empty()));
    printable(&cut(found.unwrap_or(&payload.to_string()).trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_schemas::requests::run::{CommandState, RunStatus};
    use serde_json::json;

    #[test]
    fn states_are_the_protocols_words() {
        let plain = Show::new(false, true);
        assert_eq!(word(RunStatus::Pending), "pending");
        assert_eq!(word(LivenessPhase::RunnerHeartbeatStale), "runner-heartbeat-stale");
        assert_eq!(state(&plain, &word(CommandState::Running)), "running     ");
        assert_eq!(state(&plain, "run\x1bning"), "run\\u001bning");
    }

    #[test]
    fn a_failure_is_a_kind_and_a_sentence() {
        assert_eq!(failure(Some("backend-failed"), Some("it\nwas")), "backend-failed: it was");
        assert_eq!(failure(Some("cancelled"), Some("thank you")), "thank you");
        assert_eq!(failure(None, Some("")), "");
    }

    #[test]
    fn a_question_has_its_own_answers_or_the_usual_ones() {
        let approval = |options: Value| -> RunApproval {
            let approval = json!({ "approvalId": "ap-1", "runId": "run_1", "commandId": null, "reason": "tool",
                "message": "Delete\x1b[2J it?", "callId": null, "responseSchema": null, "options": options,
                "decision": null, "payload": null, "by": null, "createdAt": "2026-03-21T13:00:00.000Z",
                "expiresAt": "2026-03-21T13:30:00.000Z" });
            serde_json::from_str(&approval.to_string()).unwrap()
        };
        let plain = Show::new(false, true);
        assert_eq!(
            question(&plain, &approval(json!([]))),
            "ap-1 asks: Delete\\u001b[2J it?  (accept, decline, cancel, until 2026-03-21T13:30:00Z)"
        );
        assert!(question(&plain, &approval(json!(["yes", "no"]))).contains("(yes, no, until "));
    }

    #[test]
    fn a_payload_without_a_known_text_is_shown_whole() {
        assert_eq!(text_of(&json!({ "text": "a\u{202e}b\n" }), &["message", "text"]), "a\\u202eb");
        assert_eq!(text_of(&json!({ "n": 1 }), &["text"]), r#"{"n":1}"#);
    }
}
