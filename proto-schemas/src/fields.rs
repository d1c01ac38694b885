//! The members of a type and of a schema by name, so that the two can be compared.

use std::collections::BTreeSet;

use serde::de::value::Error;
use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::Value;

use crate::common;

/// The names that a struct is read from, aliases included. None for what is not a struct of fixed names: a map, any JSON, or
/// a struct that flattens another one.
pub fn fields_of<T: Deserialize<'static>>() -> Option<&'static [&'static str]> {
    let mut fields = None;
    // It always fails: a struct asks for its fields before anything is read, and there is nothing to read.
    let _ = T::deserialize(FieldRecorder(&mut fields));
    fields
}

/// The names of the members that a schema lists, those of the schemas it refers to included.
pub fn properties_of(schema: &'static Value) -> BTreeSet<&'static str> {
    let mut names: BTreeSet<&str> =
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let parts = schema["allOf"].as_array().into_iter().flatten();
    for part in parts.chain(referred(schema)) {
        names.extend(properties_of(part));
    }
    names
}

/// How the names that a type reads differ from those that a schema lists: a sentence for each, none if they are the same.
pub fn field_differences(fields: &[&str], schema: &'static Value) -> Vec<String> {
    let (read, listed) = (fields.iter().copied().collect(), properties_of(schema));
    let more = BTreeSet::difference(&read, &listed).map(|name| format!("{name} is not in the schema"));
    let less = listed.difference(&read).map(|name| format!("{name} is not read"));
    more.chain(less).collect()
}

/// The shared schema that this one refers to.
pub fn referred(schema: &Value) -> Option<&'static Value> {
    let name = schema["$ref"].as_str()?.strip_prefix("#/components/schemas/")?;
    common().get(name)
}

struct FieldRecorder<'a>(&'a mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for FieldRecorder<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = Some(fields);
        Err(nothing_to_read())
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(nothing_to_read())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct
        map enum identifier ignored_any
    }
}

fn nothing_to_read() -> Error {
    Error::custom("only the names of the fields are wanted")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only the names count")]
    struct Named {
        first: u8,
        #[serde(rename = "type", alias = "kind")]
        second: Option<String>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only the names count")]
    struct Flattened {
        #[serde(flatten)]
        rest: Named,
    }

    #[test]
    fn fields_are_named_as_on_the_wire() {
        let mut fields = fields_of::<Named>().unwrap().to_vec();
        fields.sort_unstable();
        assert_eq!(fields, ["first", "kind", "type"]);
        assert_eq!(fields_of::<Option<Named>>(), fields_of::<Named>());
        assert_eq!(fields_of::<Flattened>(), None);
        assert_eq!(fields_of::<Value>(), None);
        assert_eq!(fields_of::<Box<serde_json::value::RawValue>>(), None);
    }

    #[test]
    fn differences_are_found_in_both_directions() {
        let schema = &crate::find("auth.revoke_tokens").unwrap().doc()["params"];
        assert!(field_differences(&["aid"], schema).is_empty());
        assert_eq!(field_differences(&["why"], schema), ["why is not in the schema", "aid is not read"]);
    }

    #[test]
    fn properties_of_a_referred_schema_count() {
        let method = crate::find("meta.trust_roots").unwrap();
        assert!(properties_of(&method.doc()["result"]).contains("root_cas"));
    }
}
