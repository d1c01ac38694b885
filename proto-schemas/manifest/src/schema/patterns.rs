//! Patterns: how many, how long, and whether the engine takes them.

use super::arguments::ArgumentValidator;
use super::positions::SchemaPosition;
use crate::pointer::join;
use crate::refusal::{Violations, rule};
use serde_json::{Value, json};

/// What a pattern may have.
const LONGEST: usize = 1000;

/// How many patterns a tool may have: a device compiles those of one tool at a time.
const MOST_OF_A_TOOL: usize = 64;

/// How many a manifest may have: a server compiles all of them when it accepts it.
const MOST: usize = 512;

/// How many patterns of a manifest were seen.
#[derive(Default)]
pub(crate) struct PatternCount(usize);

impl PatternCount {
    /// Finds the patterns of a schema that are refused.
    pub fn check(&mut self, positions: &[SchemaPosition<'_>], path: &str, found: &mut Violations) {
        let patterns: Vec<(String, &str)> = positions.iter().flat_map(patterns_of).collect();
        self.0 += patterns.len();
        if patterns.len() > MOST_OF_A_TOOL || self.0 > MOST {
            let message = format!(
                "there are too many patterns: {MOST_OF_A_TOOL} are allowed in one schema, {MOST} in a manifest"
            );
            found.add(path, rule::PATTERN, message);
            return;
        }
        for (at, pattern) in patterns {
            if let Some(message) = flaw(pattern) {
                found.add(format!("{path}{at}"), rule::PATTERN, message);
            }
        }
    }
}

/// The patterns of one schema, without those of the schemas inside it.
fn patterns_of<'s>(position: &SchemaPosition<'s>) -> Vec<(String, &'s str)> {
    let pattern = position.schema.get("pattern").and_then(Value::as_str);
    let own = pattern.map(|pattern| (join(&position.path, "pattern"), pattern));
    let by_pattern = join(&position.path, "patternProperties");
    let names = position.schema.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
    let names = names.map(|(pattern, _)| (join(&by_pattern, pattern), pattern.as_str()));
    own.into_iter().chain(names).collect()
}

fn flaw(pattern: &str) -> Option<String> {
    if pattern.len() > LONGEST {
        return Some(format!("a pattern may have {LONGEST} bytes, and this has {}", pattern.len()));
    }
    // Compiled by the same engine and with the same limits as when arguments are checked.
    let refused = ArgumentValidator::new(&json!({ "pattern": pattern })).is_err();
    refused.then(|| {
        "this is no regular expression that can be matched in linear time and little memory: \
         without look-around and back-references, and with small repetitions"
            .to_owned()
    })
}
