//! JSON in which no key is given twice, together with the order in which it was written.

use super::pointer::segments;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt;

/// So much of a key is quoted in a refusal.
const QUOTED: usize = 40;

/// A value, and the order of its members, which [`Value`] does not keep.
pub(crate) struct ReadJson {
    pub value: Value,
    pub order: WrittenOrder,
}

/// What stands before what in a document.
pub(crate) enum WrittenOrder {
    Scalar,
    Items(Vec<WrittenOrder>),
    Members(HashMap<String, (usize, WrittenOrder)>),
}

/// Reads a whole text. Which of two members with one name would count is up to the reader, so there must not be two.
pub(crate) fn read(text: &str) -> Result<ReadJson, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl WrittenOrder {
    /// Where a JSON Pointer leads, as the position at each level. What is missing comes behind what is there.
    pub fn position(&self, pointer: &str) -> Vec<usize> {
        let (mut at, mut position) = (Some(self), Vec::new());
        for segment in segments(pointer) {
            let found = match at {
                Some(WrittenOrder::Items(items)) => {
                    segment.parse::<usize>().ok().and_then(|n| Some((n, items.get(n)?)))
                }
                Some(WrittenOrder::Members(members)) => members.get(&*segment).map(|(n, inner)| (*n, inner)),
                Some(WrittenOrder::Scalar) | None => None,
            };
            position.push(found.map_or(usize::MAX, |(n, _)| n));
            at = found.map(|(_, inner)| inner);
        }
        position
    }
}

impl<'de> Deserialize<'de> for ReadJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ReadJson, D::Error> {
        deserializer.deserialize_any(ReadJsonVisitor)
    }
}

struct ReadJsonVisitor;

fn scalar<E>(value: impl Into<Value>) -> Result<ReadJson, E> {
    Ok(ReadJson { value: value.into(), order: WrittenOrder::Scalar })
}

impl<'de> Visitor<'de> for ReadJsonVisitor {
    type Value = ReadJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<ReadJson, E> {
        scalar(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<ReadJson, E> {
        scalar(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<ReadJson, E> {
        scalar(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<ReadJson, E> {
        scalar(value)
    }

    fn visit_f64<E>(self, value: f64) -> Result<ReadJson, E> {
        scalar(value)
    }

    fn visit_str<E>(self, value: &str) -> Result<ReadJson, E> {
        scalar(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ReadJson, A::Error> {
        let (mut values, mut orders) = (Vec::new(), Vec::new());
        while let Some(ReadJson { value, order }) = items.next_element()? {
            values.push(value);
            orders.push(order);
        }
        Ok(ReadJson { value: Value::Array(values), order: WrittenOrder::Items(orders) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<ReadJson, A::Error> {
        let (mut values, mut orders) = (Map::new(), HashMap::new());
        while let Some(name) = members.next_key::<String>()? {
            if orders.contains_key(&name) {
                let name: String = name.chars().take(QUOTED).collect();
                return Err(A::Error::custom(format_args!("the key {name:?} twice in one object")));
            }
            let ReadJson { value, order } = members.next_value()?;
            orders.insert(name.clone(), (orders.len(), order));
            values.insert(name, value);
        }
        Ok(ReadJson { value: Value::Object(values), order: WrittenOrder::Members(orders) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_stands_once_in_an_object_at_every_depth() {
        let text = r#" {"b":[1,-2,1.5,"x",null,true],"a":{"c":{}}} "#;
        assert_eq!(
            read(text).unwrap().value,
            json!({ "a": { "c": {} }, "b": [1, -2, 1.5, "x", null, true] })
        );
        for text in [r#"{"a":1,"a":1}"#, r#"{"x":[{"a":1,"b":2,"\u0061":3}]}"#] {
            assert!(read(text).err().unwrap().contains(r#"the key "a" twice"#), "{text}");
        }
        for text in ["", "{", "1 2", "nul", "\"\\ud800\"", "1e999", &"[".repeat(100_000)] {
            assert!(read(text).is_err(), "{text:.20}");
        }
    }

    #[test]
    fn positions_follow_the_text_and_not_the_alphabet() {
        let order = read(r#"{"z":[0,{"y":1,"x":2}],"a":3}"#).unwrap().order;
        let mut paths = ["/a", "/z/1/none", "/z/1/x", "/z/7", "/z/1/y", "/z", "", "/none", "/z/0"];
        paths.sort_by_key(|path| order.position(path));
        assert_eq!(paths, ["", "/z", "/z/0", "/z/1/y", "/z/1/x", "/z/1/none", "/z/7", "/a", "/none"]);
    }
}
