//! Why an input is refused.

use serde::Serialize;
use std::collections::BTreeMap;

/// So many violations are reported.
const REPORTED: usize = 20;

/// So many bytes of a path are shown: it may contain names that the input made up.
const SHOWN_PATH_BYTES: usize = 200;

/// What an input is refused with, as the protocol says it.
pub(super) mod sentence {
    pub const TOO_LARGE: &str = "RunAgentInput payload exceeds size limit";
    pub const INVALID: &str = "invalid RunAgentInput";
    pub const THREAD_ID: &str = "threadId must be a valid UUID";
    pub const RUN_ID: &str = "runId exceeds length limit";
    pub const MESSAGES: &str = "RunAgentInput.messages exceeds limit";
    pub const ONE_USER_MESSAGE: &str = "RunAgentInput.messages must contain exactly one user message";
    pub const USER_FIRST: &str = "RunAgentInput.messages[0].role must be user";
    pub const TEXT: &str = "RunAgentInput user message text exceeds limit";
    pub const BINARY_DATA: &str = "binary content data is not allowed";
    pub const IMAGE: &str = "binary content requires image mimeType";
    pub const BINARY_URL: &str = "binary content requires url";
    pub const ATTACHMENTS: &str = "Too many attachments";
    pub const SIGNED_URL: &str = "binary content url is not a valid signed URL";
    pub const FORWARDED_PROPS: &str = "invalid RunAgentInput.forwardedProps";
    pub const DEVICE_TIMEZONE: &str = "invalid client_time.device_timezone";
    pub const CLIENT_NOW_ISO: &str = "invalid client_time.client_now_iso";
    pub const CLIENT_EPOCH_MS: &str = "invalid client_time.client_epoch_ms";
}

/// The first check that an input did not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct InputRefused {
    /// The sentence that the protocol has for it.
    pub detail: String,
    /// What is wrong with the form: at most 20, in the order of the input. Only `invalid RunAgentInput` has them.
    pub errors: Vec<InputViolation>,
}

/// Something that does not have the form of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InputViolation {
    /// Such as `messages[0].content`; empty for the input as a whole.
    pub path: String,
    /// A sentence about it.
    pub message: String,
}

/// What is wrong with the form so far: the first ones by their position in the input.
#[derive(Default)]
pub(super) struct FormViolations {
    first: BTreeMap<(u32, usize), InputViolation>,
    found: usize,
}

impl FormViolations {
    /// Adds what was found in a value at this position.
    pub fn add(&mut self, at: u32, path: &str, message: impl Into<String>) {
        self.found += 1;
        let violation = InputViolation { path: shortened(path), message: message.into() };
        self.first.insert((at, self.found), violation);
        if self.first.len() > REPORTED {
            self.first.pop_last();
        }
    }

    /// Whether nothing that is found from this position on would be reported.
    pub fn is_full_before(&self, at: u32) -> bool {
        self.first.len() == REPORTED && self.first.last_key_value().is_some_and(|((last, _), _)| *last < at)
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The refusal of an input in which this was found.
    pub fn into_refusal(self) -> InputRefused {
        InputRefused { detail: sentence::INVALID.to_owned(), errors: self.first.into_values().collect() }
    }
}

impl From<&str> for InputRefused {
    fn from(sentence: &str) -> InputRefused {
        InputRefused { detail: sentence.to_owned(), errors: Vec::new() }
    }
}

fn shortened(path: &str) -> String {
    let end = path.floor_char_boundary(SHOWN_PATH_BYTES);
    if end == path.len() { path.to_owned() } else { format!("{}…", &path[..end]) }
}
