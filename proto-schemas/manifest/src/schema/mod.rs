//! The schemas of arguments: which are accepted, and which arguments they accept.
//!
//! A schema comes from somebody else, and is used on a server and on the devices of people. So nothing in it may reach the network, and
//! nothing may take more time or memory than its size suggests: references stay inside, nesting and patterns are bounded, and patterns
//! are matched by an engine whose time is linear in the text.

mod arguments;
mod expansion;
mod limits;
mod objects;
mod patterns;
mod positions;
mod references;

#[cfg(test)]
mod tests;

use super::refusal::{Violation, Violations, rule};
pub use arguments::ArgumentValidator;
pub(crate) use objects::admits_no_object;
use patterns::PatternParts;
pub(crate) use references::LocalReferences;
use serde_json::Value;

/// What the schemas of a manifest have together, as far as they were looked at.
#[derive(Default)]
pub(crate) struct SchemaTotals {
    values: usize,
    patterns: PatternParts,
}

/// Finds what is wrong with a schema that stands at `path`.
pub(crate) fn check(schema: &Value, path: &str, totals: &mut SchemaTotals, found: &mut Violations) {
    let before = found.count();
    limits::check(schema, path, &mut totals.values, found);
    if found.count() > before {
        // What comes next is only cheap within the limits.
        return;
    }
    let positions = positions::positions(schema);
    let references = LocalReferences::of(schema, &positions);
    references.check(&positions, path, found);
    expansion::check(&references, &positions, path, found);
    totals.patterns.check(&positions, path, found);
    for error in jsonschema::draft202012::meta::validator().iter_errors(schema) {
        found.add(format!("{path}{}", error.instance_path()), rule::JSON_SCHEMA, error.to_string());
    }
}

/// What keeps a schema from being accepted as the schema of a tool's arguments, or as a part of one.
pub fn schema_violations(schema: &Value) -> Vec<Violation> {
    let mut found = Violations::default();
    check(schema, "", &mut SchemaTotals::default(), &mut found);
    found.into_list()
}
