//! JSON as it was written: refusals follow its order, and can say which names an object has twice.

use super::refusal::FormViolations;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

/// A value and its position: one that begins later has a greater one.
pub(super) struct JsonNode {
    pub at: u32,
    pub value: JsonContent,
}

pub(super) enum JsonContent {
    /// Null, a truth value, a number or a string.
    Scalar(Value),
    Items(Vec<JsonNode>),
    Members(Vec<(String, JsonNode)>),
}

/// Reads a whole text. Nothing where it is not JSON, or nested deeper than the stack of a thread can follow.
pub(super) fn read(json: &[u8]) -> Option<JsonNode> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let node = NodeReader(&Cell::new(0)).deserialize(&mut json).ok()?;
    json.end().ok()?;
    Some(node)
}

impl JsonNode {
    pub fn is_null(&self) -> bool {
        matches!(self.value, JsonContent::Scalar(Value::Null))
    }

    pub fn as_str(&self) -> Option<&str> {
        let JsonContent::Scalar(value) = &self.value else { return None };
        value.as_str()
    }

    pub fn member(&self, name: &str) -> Option<&JsonNode> {
        let JsonContent::Members(members) = &self.value else { return None };
        members.iter().find(|(member, _)| member == name).map(|(_, node)| node)
    }

    pub fn into_value(self) -> Value {
        match self.value {
            JsonContent::Scalar(value) => value,
            JsonContent::Items(items) => items.into_iter().map(JsonNode::into_value).collect(),
            JsonContent::Members(members) => {
                let members = members.into_iter().map(|(name, node)| (name, node.into_value()));
                Value::Object(members.collect::<Map<String, Value>>())
            }
        }
    }
}

/// Finds members whose name an object has twice: which of them counts is up to the reader, so there must not be two.
pub(super) fn find_repeated(node: &JsonNode, found: &mut FormViolations) {
    find_repeated_below(node, &mut String::new(), found);
}

/// The path grows and shrinks in one text. Names may be long, so one text for each value would cost their product.
fn find_repeated_below(node: &JsonNode, path: &mut String, found: &mut FormViolations) {
    let length = path.len();
    match &node.value {
        JsonContent::Scalar(_) => (),
        JsonContent::Items(items) => {
            for (n, item) in items.iter().enumerate() {
                path.push_str(&item_path("", n));
                find_repeated_below(item, path, found);
                path.truncate(length);
            }
        }
        JsonContent::Members(members) => {
            let mut names = HashSet::new();
            for (name, member) in members {
                if length > 0 {
                    path.push('.');
                }
                path.push_str(name);
                if !names.insert(name) {
                    found.add(member.at, path, "this member is given twice");
                }
                find_repeated_below(member, path, found);
                path.truncate(length);
            }
        }
    }
}

/// The path of a member of what has this path.
pub(super) fn member_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The path of an item of what has this path.
pub(super) fn item_path(path: &str, n: usize) -> String {
    format!("{path}[{n}]")
}

/// Reads a value, and counts the values that it begins.
#[derive(Clone, Copy)]
struct NodeReader<'c>(&'c Cell<u32>);

impl NodeReader<'_> {
    fn position(self) -> u32 {
        let at = self.0.get();
        self.0.set(at.saturating_add(1));
        at
    }

    fn scalar<E>(self, value: impl Into<Value>) -> Result<JsonNode, E> {
        Ok(JsonNode { at: self.position(), value: JsonContent::Scalar(value.into()) })
    }
}

impl<'de> DeserializeSeed<'de> for NodeReader<'_> {
    type Value = JsonNode;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<JsonNode, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeReader<'_> {
    type Value = JsonNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<JsonNode, E> {
        self.scalar(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<JsonNode, E> {
        self.scalar(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<JsonNode, E> {
        self.scalar(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<JsonNode, E> {
        self.scalar(value)
    }

    fn visit_f64<E>(self, value: f64) -> Result<JsonNode, E> {
        self.scalar(value)
    }

    fn visit_str<E>(self, value: &str) -> Result<JsonNode, E> {
        self.scalar(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<JsonNode, A::Error> {
        let (at, mut nodes) = (self.position(), Vec::new());
        while let Some(node) = items.next_element_seed(self)? {
            nodes.push(node);
        }
        Ok(JsonNode { at, value: JsonContent::Items(nodes) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<JsonNode, A::Error> {
        let (at, mut nodes) = (self.position(), Vec::new());
        while let Some(name) = members.next_key()? {
            nodes.push((name, members.next_value_seed(self)?));
        }
        Ok(JsonNode { at, value: JsonContent::Members(nodes) })
    }
}
