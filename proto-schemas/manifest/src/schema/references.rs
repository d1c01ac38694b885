//! References: all of them stay inside the schema.

use super::positions::{SchemaPosition, positions};
use crate::pointer::join;
use crate::refusal::{Violations, rule};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ptr;

/// The one dialect there is.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// What the references of a schema lead to.
pub(crate) struct LocalReferences<'s> {
    root: &'s Value,
    anchors: HashMap<&'s str, &'s Value>,
    /// The values that are schemas, by their addresses. A pointer may lead to anything else, too.
    schemas: HashSet<*const Value>,
}

impl<'s> LocalReferences<'s> {
    pub fn new(root: &'s Value) -> LocalReferences<'s> {
        LocalReferences::of(root, &positions(root))
    }

    pub fn of(root: &'s Value, positions: &[SchemaPosition<'s>]) -> LocalReferences<'s> {
        let mut anchors = HashMap::new();
        for position in positions {
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = position.schema.get(keyword).and_then(Value::as_str) {
                    anchors.entry(name).or_insert(position.schema);
                }
            }
        }
        let schemas = positions.iter().map(|position| ptr::from_ref(position.schema)).collect();
        LocalReferences { root, anchors, schemas }
    }

    /// The schema that a reference names, with its path: a JSON Pointer, or `#` and the name of an anchor. None for a reference to the
    /// outside, to nothing, or to something that is no schema.
    pub fn resolve<'r>(&self, reference: &'r str) -> Option<(Cow<'r, str>, &'s Value)> {
        let fragment = percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
        if !(fragment.is_empty() || fragment.starts_with('/')) {
            let target = *self.anchors.get(&*fragment)?;
            return Some((Cow::Borrowed(reference), target));
        }
        let target = self.root.pointer(&fragment)?;
        self.schemas.contains(&ptr::from_ref(target)).then_some((fragment, target))
    }

    /// Finds references that lead out of the schema or nowhere, and what would make them mean something else.
    pub fn check(&self, positions: &[SchemaPosition<'_>], path: &str, found: &mut Violations) {
        for position in positions {
            let at = |keyword: &str| format!("{path}{}", join(&position.path, keyword));
            let text = |keyword: &str| position.schema.get(keyword).and_then(Value::as_str);
            if text("$schema").is_some_and(|dialect| dialect.trim_end_matches('#') != DIALECT) {
                found.add(at("$schema"), rule::DIALECT, format!("$schema must be absent or {DIALECT}"));
            }
            if position.schema.get("$id").is_some() && !position.path.is_empty() {
                let message = "$id may only stand at the top: references inside would lead elsewhere";
                found.add(at("$id"), rule::LOCAL_REFERENCE, message);
            }
            for keyword in ["$ref", "$dynamicRef"] {
                if let Some(reference) = text(keyword)
                    && self.resolve(reference).is_none()
                {
                    let message =
                        format!("{keyword} must name a schema inside input_schema, such as #/$defs/name");
                    found.add(at(keyword), rule::LOCAL_REFERENCE, message);
                }
            }
        }
    }
}
