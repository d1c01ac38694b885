//! The largest value that a schema permits.

use proto_schemas::common;
use serde_json::{Map, Value, json};

use super::formats::{self, UNIQUE};
use super::pattern::longest_match;

/// The largest number that JSON carries exactly.
const LARGEST_NUMBER: u64 = 9_007_199_254_740_991;
/// How deep values without a schema are nested: with the frame around them about as deep as the gateway accepts.
const NESTING: usize = 48;
/// How many items a list has whose number is not limited, if its items are not either.
const ITEMS: usize = 1024;

/// How values are made large.
#[derive(Clone, Copy)]
pub struct Growth {
    /// What texts are filled with.
    pub filler: char,
    /// How much of a limit in bytes is used. Where several members share a limit, one of them does not reach its own.
    pub sixteenths: usize,
}

impl Growth {
    /// The largest value by this schema that has at most `space` bytes. Placeholders of the example stay: only the server knows what
    /// they stand for.
    pub fn value(self, schema: &Value, example: &Value, space: usize, nth: usize) -> Value {
        if let Some(text) = example.as_str().filter(|text| text.contains("{{")) {
            return Value::String(self.padded(text, schema));
        }
        if let Some(name) = format_name(schema) {
            return formats::largest(name, nth)
                .unwrap_or_else(|| self.value(&common()[name], example, space, nth));
        }
        if let Some(only) = schema.get("const") {
            return only.clone();
        }
        if let Some(values) = schema["enum"].as_array() {
            let same = values.iter().find(|value| *value == example);
            return same.or(values.iter().find(|value| !value.is_null())).cloned().unwrap_or_default();
        }
        if let Some(first) = schema.pointer("/anyOf/0") {
            return self.value(first, example, space, nth);
        }
        match kind(schema) {
            Some("string") => Value::String(self.text(schema, space, nth)),
            Some("integer" | "number") => schema.get("maximum").cloned().unwrap_or(json!(LARGEST_NUMBER)),
            Some("boolean") => Value::Bool(true),
            Some("array") => self.list(schema, space),
            Some("object") if schema["properties"].is_object() => {
                Value::Object(self.members(schema, example, space, |_| true))
            }
            _ => self.anything(schema, example, space),
        }
    }

    /// The members of an object, as far as they are wanted. Those with the lowest limits come first, and leave what they do not use to
    /// the others.
    pub fn members(
        self,
        schema: &Value,
        example: &Value,
        space: usize,
        wanted: impl Fn(&Value) -> bool,
    ) -> Map<String, Value> {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let mut properties: Vec<_> = properties.filter(|(_, schema)| wanted(schema)).collect();
        properties.sort_by_key(|(_, schema)| bound(schema));
        let (mut members, mut left) = (Map::new(), space);
        for (at, (name, schema)) in properties.iter().enumerate() {
            let share = left / (properties.len() - at);
            let value = self.value(schema, &example[name.as_str()], share, 0);
            left = left.saturating_sub(name.len() + 4 + printed(&value));
            members.insert((*name).clone(), value);
        }
        members
    }

    /// A text around a placeholder, filled up at its end; a placeholder alone stays what it is.
    fn padded(self, text: &str, schema: &Value) -> String {
        let longest = limit(schema, "maxLength").map_or(0, |most| self.part(to_size(most)));
        // The names of placeholders are longer than most of what they stand for, but not than all of it.
        let spare = longest.saturating_sub(2 * text.len() + UNIQUE.len());
        if text.starts_with("{{") || spare == 0 {
            return text.to_owned();
        }
        format!("{text}{UNIQUE}{}", "x".repeat(spare))
    }

    fn text(self, schema: &Value, space: usize, nth: usize) -> String {
        let fitting = self.part(space).saturating_sub(2) / self.filler.len_utf8();
        let longest = limit(schema, "maxLength").map_or(fitting, |most| to_size(most).min(fitting));
        if let Some(pattern) = schema["pattern"].as_str() {
            return longest_match(pattern, longest);
        }
        let begin = format!("{UNIQUE}-{nth}-");
        let filling = longest.saturating_sub(begin.len());
        let mut text: String = begin.chars().take(longest).collect();
        text.extend(std::iter::repeat_n(self.filler, filling));
        text
    }

    fn list(self, schema: &Value, space: usize) -> Value {
        let items = &schema["items"];
        let fitting = match bound(items) {
            usize::MAX => ITEMS,
            bytes => (space / (bytes + 1)).max(1),
        };
        let many = match limit(schema, "maxItems").map(to_size) {
            Some(most) => most,
            None => fitting,
        };
        let share = space / many.max(1);
        Value::Array(
            (0..many).map(|nth| self.value(items, &Value::Null, share.saturating_sub(1), nth)).collect(),
        )
    }

    /// What the schema says nothing about but how large it is: as many values as fit, each of which costs a parser more than its bytes.
    fn anything(self, schema: &Value, example: &Value, space: usize) -> Value {
        let space = limit(schema, "maxBytes").map_or(space, |most| to_size(most).min(space));
        let base = example.as_object().or_else(|| schema.pointer("/examples/0")?.as_object());
        let mut object = Value::Object(base.cloned().unwrap_or_default());
        let spare = self.part(space).saturating_sub(printed(&object) + 2 * NESTING + UNIQUE.len() + 32);
        let mut values = vec![json!(0); spare / 2];
        values.push(json!(UNIQUE));
        object["filling"] = (1..NESTING).fold(Value::Array(values), |inner, _| Value::Array(vec![inner]));
        object
    }

    fn part(self, bytes: usize) -> usize {
        bytes / 16 * self.sixteenths
    }
}

/// The name of the shared schema that this one refers to.
pub fn format_name(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/components/schemas/")
}

/// How many bytes a value may have, as far as the schema says it.
fn bound(schema: &Value) -> usize {
    const FEW: usize = 64;
    if let Some(name) = format_name(schema) {
        return bound(&common()[name]);
    }
    if let Some(bytes) = limit(schema, "maxBytes") {
        return to_size(bytes);
    }
    if schema.get("const").is_some() || schema.get("enum").is_some() {
        return FEW;
    }
    match kind(schema) {
        Some("string") => match (limit(schema, "maxLength"), schema.get("pattern")) {
            (Some(most), _) => 4 * to_size(most),
            (None, Some(_)) => 4 * FEW,
            (None, None) => usize::MAX,
        },
        Some("integer" | "number" | "boolean") => FEW,
        Some("array") => {
            let most = limit(schema, "maxItems").map_or(usize::MAX, to_size);
            most.saturating_mul(bound(&schema["items"]))
        }
        Some("object") => schema["properties"]
            .as_object()
            .map_or(usize::MAX, |properties| properties.values().map(bound).fold(0, usize::saturating_add)),
        _ => usize::MAX,
    }
}

/// The first kind of value that it permits; null is none.
fn kind(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        _ => None,
    }
}

/// A keyword of JSON Schema, or one of ours with `x-` in front of it.
fn limit(schema: &Value, keyword: &str) -> Option<u64> {
    schema[keyword].as_u64().or_else(|| schema[format!("x-{keyword}")].as_u64())
}

fn printed(value: &Value) -> usize {
    value.to_string().len()
}

fn to_size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
