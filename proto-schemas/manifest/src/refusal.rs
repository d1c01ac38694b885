//! Why a manifest is refused: everything that is wrong with it at once, in the order of the document.

use super::json::WrittenOrder;
use serde::Serialize;

/// At most so many violations are reported.
const REPORTED: usize = 50;

/// So many characters a message has at most: it may quote what the manifest says.
const MESSAGE_CHARS: usize = 300;

/// What a violation is called. The first three have a code of their own.
pub(crate) mod rule {
    pub const RESERVED_SCOPE: &str = "reserved_scope";
    pub const FALLBACK_REQUIRED: &str = "fallback_required";
    pub const PRESET_SENSITIVITY: &str = "preset_sensitivity";
    pub const REQUIRED: &str = "required";
    pub const TYPE: &str = "type";
    pub const VALUE: &str = "value";
    pub const FORMAT: &str = "format";
    pub const LENGTH: &str = "length";
    pub const RANGE: &str = "range";
    pub const TOO_MANY: &str = "too_many";
    pub const UNIQUE: &str = "unique";
    pub const UNDECLARED_SCOPE: &str = "undeclared_scope";
    pub const NESTING: &str = "nesting";
    pub const JSON_SCHEMA: &str = "json_schema";
    pub const DIALECT: &str = "dialect";
    pub const LOCAL_REFERENCE: &str = "local_reference";
    pub const PATTERN: &str = "pattern";
}

/// A place in a manifest that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// A JSON Pointer; that of a missing member is where it would be.
    pub path: String,
    /// Which rule, in a word.
    pub rule: &'static str,
    /// A sentence about it.
    pub message: String,
}

/// Why a text is no manifest that can be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestRefusal {
    /// The text is not JSON, or has a key twice.
    #[error("the manifest is not JSON: {0}")]
    NotJson(String),
    /// Its canonical form has too many bytes.
    #[error("the manifest must have at most {limit} bytes in canonical form, and has {actual}")]
    TooLarge {
        /// How many bytes are allowed.
        limit: usize,
        /// How many it has.
        actual: usize,
    },
    /// It breaks rules.
    #[error("the manifest is refused: {}", in_words(violations))]
    Invalid {
        /// `MANIFEST_INVALID`, or the code of the one kind that all violations are of.
        code: &'static str,
        /// At least one and at most 50, in the order of the document.
        violations: Vec<Violation>,
    },
}

/// What was found so far.
#[derive(Default)]
pub(crate) struct Violations(Vec<Violation>);

impl Violations {
    pub fn add(&mut self, path: impl Into<String>, rule: &'static str, message: impl Into<String>) {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(MESSAGE_CHARS) {
            message.truncate(end);
            message.push('…');
        }
        self.0.push(Violation { path: path.into(), rule, message });
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn into_list(self) -> Vec<Violation> {
        self.0
    }

    /// The refusal of a document that was written in this order, unless nothing was found.
    pub fn into_refusal(self, order: &WrittenOrder) -> Option<ManifestRefusal> {
        let mut violations = self.0;
        let first = violations.first()?;
        let one_kind = violations.iter().all(|violation| code(violation.rule) == code(first.rule));
        let code = if one_kind { code(first.rule) } else { "MANIFEST_INVALID" };
        violations.sort_by_cached_key(|violation| order.position(&violation.path));
        violations.truncate(REPORTED);
        Some(ManifestRefusal::Invalid { code, violations })
    }
}

/// The first violation, and how many more there are.
fn in_words(violations: &[Violation]) -> String {
    let first =
        violations.first().map_or_else(String::new, |first| format!("{}: {}", first.path, first.message));
    match violations.len() {
        0 | 1 => first,
        several => format!("{first} (and {} more)", several - 1),
    }
}

fn code(rule: &str) -> &'static str {
    match rule {
        rule::RESERVED_SCOPE => "MANIFEST_RESERVED_SCOPE",
        rule::FALLBACK_REQUIRED => "MANIFEST_FALLBACK_REQUIRED",
        rule::PRESET_SENSITIVITY => "MANIFEST_PRESET_SENSITIVITY",
        _ => "MANIFEST_INVALID",
    }
}
