//! A schema together with what its `$ref` leads to, as one.

use crate::schema::LocalReferences;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ptr;

/// Keywords whose members are passed one by one each time that a schema is looked at.
const PASSED: [&str; 8] =
    ["allOf", "anyOf", "oneOf", "patternProperties", "prefixItems", "properties", "required", "type"];

/// What a schema without `type` accepts.
const ALL_TYPES: [&str; 6] = ["array", "boolean", "null", "number", "object", "string"];

/// A schema and the targets of its references, one behind the other. Where several have a keyword, the first one counts.
pub(super) struct SchemaView<'s> {
    path: Cow<'s, str>,
    parts: Vec<SchemaPart<'s>>,
    /// The schema `false`, which accepts nothing.
    is_false: bool,
}

/// An object with keywords.
pub(super) struct SchemaPart<'s> {
    pub path: Cow<'s, str>,
    members: &'s Map<String, Value>,
}

/// The values that a schema allows.
#[derive(Clone, Copy)]
pub(super) enum SchemaChoices<'s> {
    One(&'s Value),
    /// A list of them.
    Listed(&'s Value),
}

impl<'s> SchemaChoices<'s> {
    pub fn value(self) -> &'s Value {
        match self {
            SchemaChoices::One(value) | SchemaChoices::Listed(value) => value,
        }
    }
}

/// What a schema says about properties it does not name.
pub(super) enum OtherProperties<'s> {
    Any,
    Refused,
    /// Those that fit the schema.
    Fitting(&'s Value),
}

impl<'s> SchemaView<'s> {
    pub fn new(schema: &'s Value, path: Cow<'s, str>, references: &LocalReferences<'s>) -> SchemaView<'s> {
        let (mut parts, mut is_false, mut seen) = (Vec::new(), false, HashSet::new());
        let mut next = Some((path.clone(), schema));
        while let Some((path, schema)) = next.take() {
            if !seen.insert(ptr::from_ref(schema)) {
                break;
            }
            match schema {
                Value::Bool(false) => is_false = true,
                Value::Object(members) => {
                    let reference = members.get("$ref").and_then(Value::as_str);
                    next = reference.and_then(|reference| references.resolve(reference));
                    parts.push(SchemaPart { path, members });
                }
                _ => {}
            }
        }
        SchemaView { path, parts, is_false }
    }

    /// The first value of a keyword, with the part that has it.
    pub fn first(&self, keyword: &str) -> Option<(&SchemaPart<'s>, &'s Value)> {
        self.parts.iter().find_map(|part| Some((part, part.members.get(keyword)?)))
    }

    pub fn value(&self, keyword: &str) -> Option<&'s Value> {
        self.first(keyword).map(|(_, value)| value)
    }

    /// Where a keyword stands; where it would stand, if it does not.
    pub fn path_of(&self, keyword: &str) -> &str {
        match self.first(keyword) {
            Some((part, _)) => &part.path,
            None => &self.path,
        }
    }

    pub fn keywords(&self) -> impl Iterator<Item = &'s str> {
        self.parts.iter().flat_map(|part| part.members.keys().map(String::as_str))
    }

    pub fn types(&self) -> BTreeSet<&'s str> {
        match self.value("type") {
            _ if self.is_false => BTreeSet::new(),
            Some(Value::String(name)) => BTreeSet::from([name.as_str()]),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => ALL_TYPES.into(),
        }
    }

    /// The names of required properties, with the path of the part that requires each.
    pub fn required(&self) -> BTreeMap<&'s str, &str> {
        let mut required = BTreeMap::new();
        for part in &self.parts {
            let names = part.members.get("required").and_then(Value::as_array).into_iter().flatten();
            for name in names.filter_map(Value::as_str) {
                required.entry(name).or_insert(&*part.path);
            }
        }
        required
    }

    /// The values that are allowed, if they are listed: a list, or what stands in `const`.
    pub fn choices(&self) -> Option<SchemaChoices<'s>> {
        if let Some(value) = self.value("const") {
            return Some(SchemaChoices::One(value));
        }
        self.value("enum").filter(|list| list.is_array()).map(SchemaChoices::Listed)
    }

    /// How many members a look at this has to pass: keywords, names, and items of lists, without what is in them.
    pub fn members(&self) -> usize {
        let len = |value: &Value| match value {
            Value::Object(members) => members.len(),
            Value::Array(items) => items.len(),
            _ => 0,
        };
        let of_part = |part: &SchemaPart<'_>| {
            let named = PASSED.iter().filter_map(|keyword| part.members.get(*keyword));
            part.members.len() + named.map(len).sum::<usize>()
        };
        1 + self.parts.iter().map(of_part).sum::<usize>()
    }

    pub fn other_properties(&self) -> OtherProperties<'s> {
        match self.value("additionalProperties") {
            None | Some(Value::Bool(true)) => OtherProperties::Any,
            Some(Value::Bool(false)) => OtherProperties::Refused,
            Some(Value::Object(members)) if members.is_empty() => OtherProperties::Any,
            Some(schema) => OtherProperties::Fitting(schema),
        }
    }

    /// The schemas that a keyword has by name, with the part each is from.
    pub fn named(&self, keyword: &str) -> BTreeMap<&'s str, (&SchemaPart<'s>, &'s Value)> {
        let mut named = BTreeMap::new();
        for part in &self.parts {
            let members = part.members.get(keyword).and_then(Value::as_object).into_iter().flatten();
            for (name, schema) in members {
                named.entry(name.as_str()).or_insert((part, schema));
            }
        }
        named
    }

    /// The schemas that a keyword lists.
    pub fn listed(&self, keyword: &str) -> &'s [Value] {
        self.value(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }
}
