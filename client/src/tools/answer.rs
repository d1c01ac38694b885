//! What an agent is answered.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// What the envelope of every answer says.
pub const ANSWER_SUBTYPE: &str = "artifact_response";

/// The type of the content of calls and answers.
pub const CONTENT_TYPE: &str = "artifact";

/// The answer to a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer {
    /// That of the call.
    pub call_id: String,
    /// What came of it.
    pub outcome: ToolOutcome,
}

/// What came of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    /// The tool was used, and this is its result.
    Ok(Map<String, Value>),
    /// The tool could not be used.
    Error {
        /// Why not.
        code: ToolErrorCode,
        /// A sentence about it, without anything the agent must not know.
        message: Option<String>,
    },
    /// The tool was not used, because nobody allowed it.
    Denied(DenialReason),
}

/// Why a tool could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ToolErrorCode {
    /// The platform failed while the tool ran.
    ToolPlatformError,
    /// The arguments do not fit the schema of the tool.
    ToolInvalidArguments,
    /// This device does not have the tool.
    ToolUnavailable,
}

/// Why a call was denied. Agents may rely on these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DenialReason {
    /// The person said no.
    UserRefused,
    /// The scope is not granted, or is not that of the tool.
    ScopeNotGranted,
    /// The manifest has no such tool.
    ToolNotDeclared,
    /// The person did not confirm in time.
    UserTimeout,
    /// Nobody has consented to anything in a group.
    ToolNotSupportedInGroup,
}

impl ToolOutcome {
    /// For a device that does not have the tool.
    pub fn unavailable() -> ToolOutcome {
        ToolOutcome::Error { code: ToolErrorCode::ToolUnavailable, message: None }
    }

    /// `ok`, `error` or `denied`.
    pub fn status(&self) -> &'static str {
        match self {
            ToolOutcome::Ok(_) => "ok",
            ToolOutcome::Error { .. } => "error",
            ToolOutcome::Denied(_) => "denied",
        }
    }
}

impl ToolAnswer {
    /// The payload of the message that carries it, to be encrypted.
    pub fn payload(&self) -> Value {
        let mut artifact =
            json!({ "subtype": "tool_response", "call_id": self.call_id, "status": self.outcome.status() });
        match &self.outcome {
            ToolOutcome::Ok(result) => artifact["result"] = json!(result),
            ToolOutcome::Error { code, message } => {
                artifact["error_code"] = json!(code);
                if let Some(message) = message {
                    artifact["message"] = json!(message);
                }
            }
            ToolOutcome::Denied(reason) => artifact["reason"] = json!(reason),
        }
        json!({ "type": "artifact", "artifact": artifact })
    }
}
