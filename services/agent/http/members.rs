//! The parameters of a method, from the path, the query and the body of a request.

use axum::body::Bytes;
use proto_schemas::Method;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// The members of an object, each as it was written: what a manifest repeats is not lost on the way to who refuses it.
pub(super) type Members = BTreeMap<String, Box<RawValue>>;

/// What stands in the path wins: it is what was asked for. A query parameter without a value was left out.
pub(super) fn params(
    method: &'static Method,
    names: &[&str],
    path: &HashMap<String, String>,
    query: &HashMap<String, String>,
    body: Option<&Bytes>,
) -> Result<Members, String> {
    let mut members = match body {
        Some(body) if !body.is_empty() => {
            let UniqueMembers(members) = serde_json::from_slice(body).map_err(|error| error.to_string())?;
            members
        }
        _ => Members::new(),
    };
    let properties = &method.doc()["params"]["properties"];
    let asked = names.iter().filter_map(|name| Some((*name, query.get(*name)?.as_str())));
    let asked = asked.filter(|(_, text)| !text.is_empty());
    let in_path = path.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    for (name, text) in asked.chain(in_path) {
        let value = to_raw_value(&typed(&properties[name], text)).map_err(|error| error.to_string())?;
        members.insert(name.to_owned(), value);
    }
    Ok(members)
}

/// A text of a URL as its schema types it. What does not fit stays a text, and the method says what it needs.
fn typed(schema: &Value, text: &str) -> Value {
    match schema["type"].as_str() {
        Some("integer" | "boolean") => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
        _ => Value::from(text),
    }
}

/// An object that repeats no member.
struct UniqueMembers(Members);

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UniqueMembers, D::Error> {
        deserializer.deserialize_map(UniqueMembersVisitor).map(UniqueMembers)
    }
}

struct UniqueMembersVisitor;

impl<'de> Visitor<'de> for UniqueMembersVisitor {
    type Value = Members;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Members, A::Error> {
        let mut members = Members::new();
        while let Some((name, value)) = object.next_entry::<String, Box<RawValue>>()? {
            if members.contains_key(&name) {
                return Err(de::Error::custom(format!("member {name:?} is there twice")));
            }
            members.insert(name, value);
        }
        Ok(members)
    }
}
