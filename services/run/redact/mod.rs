//! Secrets are replaced before anything is stored, answered or logged: in JSON by the names of members, and in text by their shape.

mod json;
mod payload;
mod pem;
#[cfg(test)]
mod tests;
mod text;
mod url;
mod words;

pub(crate) use json::{cut, is_secret_name, redact_json};
pub(crate) use payload::{LONGEST_TEXT, PayloadRefused, event_payload};
pub(crate) use text::redact_text;
