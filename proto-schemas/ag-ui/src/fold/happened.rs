//! What an event of the log says. Its payload was written by a back end that may be anybody's: what cannot be read says nothing.

use super::steps::Stage;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Clone, Debug)]
pub(super) enum Happened {
    Said(Said),
    Called(Called),
    Reasoned(Reasoned),
    Stage { stage: Stage, is_finished: bool },
    UiHints(Value),
    Asked(Asked),
    Answered { approval_id: String },
    Failed { message: String },
    Ended(CommandEnd),
    Nothing,
}

/// A message, or what was added to one.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Said {
    pub item_id: Option<String>,
    pub text: String,
    pub partial: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Called {
    pub call_id: String,
    pub tool_name: Option<String>,
    pub status: CallStatus,
    pub args: Option<Value>,
    pub output: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CallStatus {
    Started,
    Completed,
    Failed,
}

impl CallStatus {
    pub fn is_end(self) -> bool {
        self != CallStatus::Started
    }
}

/// A thought, whole.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reasoned {
    pub item_id: Option<String>,
    pub text: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    pub approval_id: String,
    pub reason: String,
    pub message: Option<String>,
    pub call_id: Option<String>,
    pub response_schema: Option<Map<String, Value>>,
    pub options: Option<Vec<String>>,
    pub expires_at: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommandEnd {
    pub status: EndStatus,
    pub failure_kind: Option<String>,
    pub message: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EndStatus {
    Completed,
    Failed,
    Blocked,
    Cancelled,
}

#[derive(Deserialize)]
struct BackEndStatus {
    phase: String,
    stage: Option<String>,
    ui_hints: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answered {
    approval_id: String,
}

#[derive(Deserialize)]
struct BackEndFailure {
    message: String,
}

impl Happened {
    pub fn read(kind: &str, payload: &str) -> Happened {
        let read = match kind {
            "assistant_message" => serde_json::from_str(payload).map(Happened::Said),
            "tool_call" => serde_json::from_str(payload).map(Happened::Called),
            "reasoning" => serde_json::from_str(payload).map(Happened::Reasoned),
            "backend_status" => serde_json::from_str(payload).map(Happened::of_status),
            "approval_request" => serde_json::from_str(payload).map(Happened::Asked),
            "approval_resolved" => serde_json::from_str(payload)
                .map(|Answered { approval_id }| Happened::Answered { approval_id }),
            "error" => {
                serde_json::from_str(payload).map(|BackEndFailure { message }| Happened::Failed { message })
            }
            "terminal_status" => serde_json::from_str(payload).map(Happened::Ended),
            _ => return Happened::Nothing,
        };
        read.unwrap_or(Happened::Nothing)
    }

    fn of_status(BackEndStatus { phase, stage, ui_hints }: BackEndStatus) -> Happened {
        let stage = stage.as_deref().and_then(Stage::of_word);
        match (phase.as_str(), stage, ui_hints) {
            ("stage-started", Some(stage), _) => Happened::Stage { stage, is_finished: false },
            ("stage-finished", Some(stage), _) => Happened::Stage { stage, is_finished: true },
            ("ui-hints", _, Some(hints)) => Happened::UiHints(hints),
            _ => Happened::Nothing,
        }
    }
}
