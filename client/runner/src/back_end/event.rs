//! What a back end reports.

use serde_json::Value;

/// Something that happened in a back end.
#[derive(Clone, Debug, PartialEq)]
pub enum BackEndEvent {
    /// A part of a message: only what was added.
    Partial {
        item_id: String,
        text: String,
    },
    /// A whole message.
    Message {
        item_id: String,
        text: String,
    },
    /// What a program has printed.
    Written {
        stream: WrittenStream,
        text: String,
    },
    Tool(ToolProgress),
    Stage {
        name: String,
        is_finished: bool,
    },
    /// The thread that the next turn continues.
    Thread {
        thread_id: String,
    },
    Status {
        phase: String,
    },
    /// The back end has begun the turn, and knows it by this id.
    TurnBegun {
        thread_id: String,
        turn_id: String,
    },
    /// A thought of the back end, whole.
    Reasoning {
        item_id: String,
        text: String,
    },
    /// What it intends to do, in its own words; every time as a whole.
    Plan(Value),
    /// What the turn has changed in files so far.
    Diff {
        text: String,
    },
    /// It asked for something that no runner knows, and was refused.
    Refused {
        method: String,
    },
    /// It waits for an answer.
    Asked(BackEndQuestion),
    /// Something is wrong. The turn may go on.
    Error {
        failure_kind: String,
        message: String,
    },
    /// The turn under way has ended.
    Ended(TurnEnd),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenStream {
    Stdout,
    Stderr,
}

impl WrittenStream {
    pub(crate) fn word(self) -> &'static str {
        match self {
            WrittenStream::Stdout => "stdout",
            WrittenStream::Stderr => "stderr",
        }
    }
}

/// A call of a tool that has begun or ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolProgress {
    pub call_id: String,
    pub name: String,
    pub status: ToolStatus,
    pub args: Option<Value>,
    pub output: Option<Value>,
    pub exit_code: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    Started,
    Completed,
    Failed,
}

/// A question, whose answer the turn waits for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackEndQuestion {
    pub approval_id: String,
    pub reason: String,
    pub message: Option<String>,
    pub call_id: Option<String>,
    pub response_schema: Option<Value>,
    pub options: Option<Vec<String>>,
}

/// How a turn has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    pub status: TurnStatus,
    pub failure_kind: Option<String>,
    pub message: Option<String>,
    /// How the reply may be shown, in the words of the back end.
    pub ui_hints: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStatus {
    Completed,
    Failed,
    /// It ended because it was asked to.
    Interrupted,
}

impl TurnEnd {
    pub fn completed() -> TurnEnd {
        TurnEnd { status: TurnStatus::Completed, failure_kind: None, message: None, ui_hints: None }
    }

    pub fn failed(failure_kind: impl Into<String>, message: impl Into<String>) -> TurnEnd {
        TurnEnd {
            status: TurnStatus::Failed,
            failure_kind: Some(failure_kind.into()),
            message: Some(message.into()),
            ui_hints: None,
        }
    }
}
