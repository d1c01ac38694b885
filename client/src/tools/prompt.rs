//! Asking the person whose device it is.

use manifest::{Scope, Tool};
use serde_json::Value;
use std::time::Duration;

/// What a person is asked.
pub struct ConsentQuestion<'q> {
    /// Who asks for the tool.
    pub agent: &'q str,
    /// The tool, as the manifest declares it.
    pub tool: &'q Tool,
    /// Its scope.
    pub scope: &'q Scope,
    /// What the tool would be used with.
    pub arguments: &'q Value,
    /// How long the question stands; a reply that comes later counts as none.
    pub within: Option<Duration>,
}

/// What a person replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsentReply {
    /// Yes.
    Confirmed,
    /// No.
    Refused,
    /// Nothing, in time or at all.
    Silent,
}

/// Whatever can ask a person. It may take its time: whoever decides on calls in a task of a runtime does so where blocking is allowed.
pub trait ConsentPrompt {
    /// Asks, and waits for the reply.
    fn ask(&mut self, question: &ConsentQuestion<'_>) -> ConsentReply;
}

impl<F: FnMut(&ConsentQuestion<'_>) -> ConsentReply> ConsentPrompt for F {
    fn ask(&mut self, question: &ConsentQuestion<'_>) -> ConsentReply {
        self(question)
    }
}
