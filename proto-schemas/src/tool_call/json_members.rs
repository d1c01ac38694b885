//! The members of a JSON object in the order they came, their values untouched.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;

pub struct JsonMembers<'a>(pub Vec<(String, &'a RawValue)>);

impl<'a> JsonMembers<'a> {
    pub fn of(object: &'a RawValue) -> Option<JsonMembers<'a>> {
        serde_json::from_str(object.get()).ok()
    }

    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| *value)
    }

    pub fn write(&self) -> Box<RawValue> {
        let mut text = String::from("{");
        for (name, value) in &self.0 {
            if text.len() > 1 {
                text.push(',');
            }
            text += &serde_json::Value::from(name.as_str()).to_string();
            text.push(':');
            text += value.get();
        }
        text.push('}');
        RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

impl<'de> Deserialize<'de> for JsonMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonMembers<'de>, D::Error> {
        struct Ordered;
        impl<'de> Visitor<'de> for Ordered {
            type Value = JsonMembers<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonMembers<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &RawValue>()? {
                    members.push(member);
                }
                Ok(JsonMembers(members))
            }
        }
        deserializer.deserialize_map(Ordered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_removed_is_written_as_it_came() {
        let raw =
            RawValue::from_string(r#"{"b": 1.50, "a":{"x" :[1e-7]},"é\u0041":"\/"}"#.to_owned()).unwrap();
        let mut members = JsonMembers::of(&raw).unwrap();
        members.0.retain(|(name, _)| name != "b");
        assert_eq!(members.write().get(), r#"{"a":{"x" :[1e-7]},"éA":"\/"}"#);
    }
}
