//! Where schemas stand inside a schema. Elsewhere, as in `enum` and `default`, an object with a member `$ref` is only an object.

use crate::pointer::join;
use serde_json::Value;

/// Keywords whose value is a schema.
const ONE: [&str; 11] = [
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is a list of schemas.
const LISTED: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Keywords whose value has schemas by name. `definitions` and `dependencies` are those of older drafts: many still write the first, and
/// the validator still follows the second.
const NAMED: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// A schema inside a schema, or the whole one.
pub(crate) struct SchemaPosition<'s> {
    pub path: String,
    pub schema: &'s Value,
}

/// Every schema inside a schema, the whole one first.
pub(crate) fn positions(root: &Value) -> Vec<SchemaPosition<'_>> {
    let mut found = vec![SchemaPosition { path: String::new(), schema: root }];
    let mut next = 0;
    while next < found.len() {
        let inside = inside(&found[next]);
        found.extend(inside);
        next += 1;
    }
    found
}

/// The schemas that are a part of a schema, without those inside them.
pub(super) fn inside<'s>(position: &SchemaPosition<'s>) -> Vec<SchemaPosition<'s>> {
    let mut found = Vec::new();
    for (keyword, value) in position.schema.as_object().into_iter().flatten() {
        let path = || join(&position.path, keyword);
        if ONE.contains(&keyword.as_str()) {
            found.push(SchemaPosition { path: path(), schema: value });
        } else if LISTED.contains(&keyword.as_str()) {
            let items = value.as_array().into_iter().flatten().enumerate();
            found.extend(
                items.map(|(n, schema)| SchemaPosition { path: join(&path(), &n.to_string()), schema }),
            );
        } else if NAMED.contains(&keyword.as_str()) {
            let members = value.as_object().into_iter().flatten();
            found.extend(members.map(|(name, schema)| SchemaPosition { path: join(&path(), name), schema }));
        }
    }
    found
}
