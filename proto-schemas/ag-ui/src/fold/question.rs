//! The questions that a command waits for, as interrupts.

use super::event::Interrupt;
use super::happened::Asked;
use serde_json::json;

#[derive(Clone, Debug, Default)]
pub(super) struct OpenQuestions {
    open: Vec<Interrupt>,
}

impl OpenQuestions {
    pub fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub fn has(&self, approval_id: &str) -> bool {
        self.open.iter().any(|interrupt| interrupt.id == approval_id)
    }

    /// Takes a question about a call that is shown under the given id.
    pub fn ask(&mut self, asked: Asked, tool_call_id: Option<String>) {
        let Asked { approval_id, reason, message, call_id: _, response_schema, options, expires_at } = asked;
        self.open.push(Interrupt {
            id: approval_id,
            reason,
            message,
            tool_call_id,
            response_schema,
            expires_at,
            // AG-UI has no member for the answers that a question suggests.
            metadata: options.map(|options| json!({ "agentrun": { "options": options } })),
        });
    }

    /// Takes an answer; whether it was the last one that was waited for.
    pub fn answer(&mut self, approval_id: &str) -> bool {
        let before = self.open.len();
        self.open.retain(|interrupt| interrupt.id != approval_id);
        self.open.len() < before && self.open.is_empty()
    }

    pub fn interrupts(&self) -> &[Interrupt] {
        &self.open
    }
}
