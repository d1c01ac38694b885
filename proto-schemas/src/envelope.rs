//! How answers look over HTTP. Each declared path names its envelope, and whoever answers below it, the gateway, a method or a
//! router, is shown in it.
//!
//! An envelope is a JSON file with two templates. A text in them that begins with `$` stands for a value: `$body` in that of a success;
//! in that of a failure `$word`, `$message`, `$status`, `$i18n_key`, `$retry_after_ms`, `$trace_id`, `$request_id`, `$details` (all
//! that the error says besides) and `$details.name` (one of them). With a `?` at its end the member is left out where there is no
//! such value.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpEnvelope {
    #[serde(rename = "envelope")]
    pub name: String,
    pub summary: String,
    pub success: Value,
    /// Whether the members of a result that are not its body stand beside it.
    #[serde(default)]
    pub others: bool,
    pub failure: Value,
    pub words: ErrorWords,
    /// The member of an error's data that has a more precise word.
    #[serde(default)]
    pub word_member: Option<String>,
    /// The words whose `$details` have `retryable: true`. No other error's details have it.
    #[serde(default)]
    pub retryable: Vec<String>,
    /// Headers of every answer, by templates like those of a failure.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// What is different for some errors, by their names or statuses. The name wins.
    #[serde(default)]
    pub errors: BTreeMap<String, ErrorRow>,
    /// Whether its answers name the trace or the request.
    #[serde(skip)]
    pub has_ids: bool,
}

/// How the names of errors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorWords {
    /// `NOT_FOUND`.
    Name,
    /// `not_found`.
    Kind,
    /// `not-found`.
    Kebab,
}

impl ErrorWords {
    /// The name of an error, as it is written.
    pub fn written(self, name: &str) -> String {
        match self {
            ErrorWords::Name => name.to_ascii_uppercase(),
            ErrorWords::Kind => name.to_ascii_lowercase(),
            ErrorWords::Kebab => name.to_ascii_lowercase().replace('_', "-"),
        }
    }
}

/// What an envelope says differently of an error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorRow {
    pub status: Option<u16>,
    pub word: Option<String>,
    pub message: Option<String>,
}

/// A value that a template asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placeholder<'a> {
    pub name: &'a str,
    /// Whether the member is left out where there is no value.
    pub optional: bool,
}

impl<'a> Placeholder<'a> {
    pub fn of(text: &'a str) -> Option<Placeholder<'a>> {
        let name = text.strip_prefix('$')?;
        let required = name.strip_suffix('?');
        Some(Placeholder { name: required.unwrap_or(name), optional: required.is_some() })
    }
}

impl HttpEnvelope {
    /// Reads an envelope, and refuses a template that asks for what there is not.
    pub fn parse(text: &str) -> Result<HttpEnvelope, String> {
        let mut envelope: HttpEnvelope = serde_json::from_str(text).map_err(|error| error.to_string())?;
        check(&envelope.success, &|name| name == "body")?;
        check(&envelope.failure, &is_of_failure)?;
        for template in envelope.headers.values() {
            check(&Value::from(template.as_str()), &is_of_failure)?;
        }
        envelope.has_ids = envelope.asks_for_ids();
        Ok(envelope)
    }

    /// What is said differently of an error with this name and status.
    pub fn row(&self, name: &str, status: u16) -> ErrorRow {
        let named = self.errors.get(name).cloned().unwrap_or_default();
        let by_status = self.errors.get(&status.to_string()).cloned().unwrap_or_default();
        ErrorRow {
            status: named.status.or(by_status.status),
            word: named.word.or(by_status.word),
            message: named.message.or(by_status.message),
        }
    }

    /// The key of the translations of an error: `error.manifest.too_large` for `MANIFEST_TOO_LARGE`.
    pub fn i18n_key(word: &str) -> String {
        format!("error.{}", word.to_ascii_lowercase().replacen('_', ".", 1))
    }

    fn asks_for_ids(&self) -> bool {
        let asks = |text: &str| ["$trace_id", "$request_id"].iter().any(|name| text.starts_with(name));
        any_text(&self.failure, &asks) || self.headers.values().any(|text| asks(text))
    }
}

fn is_of_failure(name: &str) -> bool {
    let known =
        ["word", "message", "status", "i18n_key", "retry_after_ms", "trace_id", "request_id", "details"];
    known.contains(&name) || name.starts_with("details.")
}

fn check(template: &Value, known: &impl Fn(&str) -> bool) -> Result<(), String> {
    let unknown = |text: &str| Placeholder::of(text).is_some_and(|asked| !known(asked.name));
    match any_text(template, &unknown) {
        true => Err(format!("{template} asks for a value that there is not")),
        false => Ok(()),
    }
}

fn any_text(template: &Value, wanted: &impl Fn(&str) -> bool) -> bool {
    match template {
        Value::String(text) => wanted(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, wanted)),
        Value::Object(members) => members.values().any(|member| any_text(member, wanted)),
        _ => false,
    }
}
