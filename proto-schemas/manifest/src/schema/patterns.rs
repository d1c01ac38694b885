//! Patterns: how many, how long, and whether an engine whose time is linear in the text takes them. They are parsed and measured here, and
//! compiled where arguments are checked: on the device that is asked for a tool.

use super::positions::SchemaPosition;
use crate::pointer::join;
use crate::refusal::{Violations, rule};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::Value;

/// What a pattern may have.
const LONGEST: usize = 1000;

/// How many patterns a tool may have: a device compiles those of one tool at a time.
const MOST_OF_A_TOOL: usize = 64;

/// How many parts a pattern may have with its repetitions written out, and all of a manifest together.
const MOST_PARTS: u64 = 10_000;
const MOST_PARTS_OF_ALL: u64 = 50_000;

/// How deep groups may be nested.
const DEEPEST: u32 = 100;

/// The parts of the patterns of a manifest that were seen.
#[derive(Default)]
pub(crate) struct PatternParts(u64);

impl PatternParts {
    /// Finds the patterns of a schema that are refused.
    pub fn check(&mut self, positions: &[SchemaPosition<'_>], path: &str, found: &mut Violations) {
        let patterns: Vec<(String, &str)> = positions.iter().flat_map(patterns_of).collect();
        if patterns.len() > MOST_OF_A_TOOL {
            let message = format!("there are too many patterns: {MOST_OF_A_TOOL} are allowed in one schema");
            found.add(path, rule::PATTERN, message);
            return;
        }
        let before = self.0;
        for (at, pattern) in patterns {
            match parts_of(pattern) {
                Ok(parts) => self.0 = self.0.saturating_add(parts),
                Err(message) => found.add(format!("{path}{at}"), rule::PATTERN, message),
            }
        }
        // Reported once, where it happens.
        if before <= MOST_PARTS_OF_ALL && self.0 > MOST_PARTS_OF_ALL {
            let message = format!(
                "with their repetitions written out the patterns of a manifest may have {MOST_PARTS_OF_ALL} parts together"
            );
            found.add(path, rule::PATTERN, message);
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

/// How many parts a pattern has, or why it is refused.
fn parts_of(pattern: &str) -> Result<u64, String> {
    if pattern.len() > LONGEST {
        return Err(format!("a pattern may have {LONGEST} bytes, and this has {}", pattern.len()));
    }
    let parsed = jsonschema_regex::to_rust_regex(pattern)
        .ok()
        .and_then(|translated| ParserBuilder::new().nest_limit(DEEPEST).build().parse(&translated).ok());
    match parsed.as_ref().map(written_out) {
        Some(parts) if parts <= MOST_PARTS => Ok(parts),
        _ => Err(format!(
            "this is no regular expression that can be matched in linear time and little memory: without look-around and \
             back-references, and with {MOST_PARTS} parts at most once its repetitions are written out"
        )),
    }
}

/// The parts of an expression: characters, ranges of characters, and what is looked for at a place.
fn written_out(expression: &Hir) -> u64 {
    match expression.kind() {
        HirKind::Empty => 0,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Unicode(class)) => class.ranges().len() as u64,
        HirKind::Class(Class::Bytes(class)) => class.ranges().len() as u64,
        HirKind::Look(_) => 1,
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(repetition.min.saturating_add(1)).max(1);
            written_out(&repetition.sub).saturating_add(1).saturating_mul(most.into())
        }
        HirKind::Capture(capture) => written_out(&capture.sub).saturating_add(1),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(written_out).fold(0, u64::saturating_add)
        }
    }
}
