//! Whether arguments fit a schema.

use jsonschema::{PatternOptions, ValidationOptions, Validator};
use serde_json::Value;

/// What a pattern may take in memory once it is compiled. Those that a manifest may have take less.
const COMPILED_BYTES: usize = 4 << 20;

/// How deep objects and arrays of arguments may be nested. A recursive schema follows them down, with several calls a level.
const DEEPEST: usize = 32;

/// Checks arguments against the schema of a tool, by JSON Schema 2020-12. `format` says something to people only.
pub struct ArgumentValidator(Validator);

impl ArgumentValidator {
    /// Fails for what is no schema, and for one that refers to something outside of it.
    pub fn new(schema: &Value) -> Result<ArgumentValidator, String> {
        options().build(schema).map(ArgumentValidator).map_err(|error| error.to_string())
    }

    /// Whether the arguments are valid, and nested no deeper than a validator can follow.
    pub fn accepts(&self, arguments: &Value) -> bool {
        is_within(arguments, DEEPEST) && self.0.is_valid(arguments)
    }
}

fn is_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| is_within(item, levels - 1)),
        Value::Object(members) => levels > 0 && members.values().all(|member| is_within(member, levels - 1)),
        _ => true,
    }
}

/// Nothing is fetched, neither from the network nor from files, and matching takes time that is linear in the text.
fn options<'i>() -> ValidationOptions<'i> {
    let patterns = PatternOptions::regex().size_limit(COMPILED_BYTES).dfa_size_limit(COMPILED_BYTES);
    jsonschema::draft202012::options().offline().with_pattern_options(patterns).should_validate_formats(false)
}
