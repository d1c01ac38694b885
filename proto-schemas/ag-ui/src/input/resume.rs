//! Answers to what a run asked before it ended.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

/// An answer to one interrupt.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeAnswer {
    /// Which one.
    pub interrupt_id: String,
    /// Whether it was answered at all.
    pub status: ResumeStatus,
    /// What was answered.
    pub payload: Option<Value>,
}

/// Whether an interrupt was answered or given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResumeStatus {
    /// The payload is the answer.
    Resolved,
    /// Nobody answers.
    Cancelled,
}

impl ResumeAnswer {
    /// What an answer says about an approval: `accept`, `decline`, `cancel`, or the words of `payload.decision`.
    ///
    /// Front ends write `{"approved": true}`, or nothing but `true`. Nothing here means that the payload is another kind of
    /// answer, such as that to a question. It must not count as consent: what waits for approval may run a command.
    pub fn decision(&self) -> Option<String> {
        if self.status == ResumeStatus::Cancelled {
            return Some("cancel".to_owned());
        }
        let payload = self.payload.as_ref()?;
        if let Some(decision) = payload.get("decision").and_then(Value::as_str) {
            return Some(decision.to_owned());
        }
        let approved = payload.get("approved").unwrap_or(payload).as_bool()?;
        Some(if approved { "accept" } else { "decline" }.to_owned())
    }
}
