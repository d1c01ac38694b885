//! Whether a schema can be met by an object, as arguments are.

use super::references::LocalReferences;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::ptr;

/// Whether it is plain that no object fits the schema. Where it is not plain, one may: what properties an object needs is not looked at.
pub(crate) fn admits_no_object(schema: &Value) -> bool {
    let references = LocalReferences::new(schema);
    NoObject { references: &references, known: HashMap::new() }.is_plain(schema)
}

struct NoObject<'r, 's> {
    references: &'r LocalReferences<'s>,
    /// What is known of each schema that was looked at; nothing is plain of one that is still looked at.
    known: HashMap<*const Value, bool>,
}

impl<'s> NoObject<'_, 's> {
    fn is_plain(&mut self, schema: &'s Value) -> bool {
        if let Some(known) = self.known.get(&ptr::from_ref(schema)) {
            return *known;
        }
        self.known.insert(ptr::from_ref(schema), false);
        let plain = match schema {
            Value::Object(members) => self.is_plain_of(members),
            other => *other == Value::Bool(false),
        };
        self.known.insert(ptr::from_ref(schema), plain);
        plain
    }

    fn is_plain_of(&mut self, members: &'s Map<String, Value>) -> bool {
        let by_value = members.iter().any(|(keyword, value)| match (keyword.as_str(), value) {
            ("type", Value::String(name)) => name != "object",
            ("type", Value::Array(names)) => !names.iter().any(|name| name == "object"),
            ("const", value) => !value.is_object(),
            ("enum", Value::Array(values)) => !values.iter().any(Value::is_object),
            ("not", refused) => is_met_by_every_object(refused),
            _ => false,
        });
        let listed = |keyword: &str| {
            let listed = members.get(keyword).and_then(Value::as_array);
            listed.map(|schemas| schemas.iter().collect::<Vec<_>>()).unwrap_or_default()
        };
        let referred = ["$ref", "$dynamicRef"].into_iter().filter_map(|keyword| {
            let reference = members.get(keyword)?.as_str()?;
            Some(self.references.resolve(reference)?.1)
        });
        let all: Vec<&'s Value> = listed("allOf").into_iter().chain(referred).collect();
        by_value
            || all.into_iter().any(|schema| self.is_plain(schema))
            || ["anyOf", "oneOf"].into_iter().any(|keyword| {
                let choices = listed(keyword);
                !choices.is_empty() && choices.into_iter().all(|schema| self.is_plain(schema))
            })
    }
}

/// `true`, `{}`, and what says nothing but that it is an object.
fn is_met_by_every_object(schema: &Value) -> bool {
    match schema {
        Value::Bool(anything) => *anything,
        Value::Object(members) => members.iter().all(|(keyword, value)| {
            keyword == "type"
                && (value == "object"
                    || value.as_array().is_some_and(|names| names.contains(&"object".into())))
        }),
        _ => false,
    }
}
