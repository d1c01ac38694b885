//! The members of a type, at every depth, and the members that a schema lists, in the same form.

use std::collections::BTreeMap;
use std::iter::once;

use serde::de::value::{Error, MapDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;

/// Each member by its path, `messages[].payload`: what kind of JSON it is, with a question mark where it may be absent or
/// null.
pub type MemberShape = BTreeMap<String, String>;

/// A text that has the rules of every name.
pub const TEXT: &str = "alice.aid.pub";
const RAW: &str = "$serde_json::private::RawValue";

pub fn of_type<T: DeserializeOwned>() -> MemberShape {
    let mut shape = MemberShape::new();
    let recorder = Recorder { shape: &mut shape, path: String::new(), optional: false };
    T::deserialize(recorder).unwrap_or_else(|error| panic!("{}: {error}", std::any::type_name::<T>()));
    shape
}

pub fn of_schema(schema: &Value) -> MemberShape {
    let mut shape = MemberShape::new();
    record(schema, String::new(), false, &mut shape);
    shape
}

/// The members that one of the two has and the other has not, or has otherwise.
pub fn differences(of_type: &MemberShape, of_schema: &MemberShape) -> Vec<String> {
    let paths = of_type.keys().chain(of_schema.keys().filter(|path| !of_type.contains_key(*path)));
    let mut lines = Vec::new();
    for path in paths {
        let (typed, listed) = (of_type.get(path), of_schema.get(path));
        if !is_free(path, of_type) && !agree(typed.map(String::as_str), listed.map(String::as_str)) {
            let shown = |kind: Option<&String>| kind.map_or("missing".to_owned(), String::clone);
            lines.push(format!("{path}: {} in the type, {} in the schema", shown(typed), shown(listed)));
        }
    }
    lines
}

/// Whether it is an item of a list of any JSON, or inside of what holds any JSON: the type says nothing about it.
fn is_free(path: &str, of_type: &MemberShape) -> bool {
    let is_any = |path: &str| of_type.get(path).is_some_and(|kind| split(kind).0 == "any");
    let inside = |(end, _): (usize, char)| is_any(&path[..end]);
    let is_item = path.ends_with("[]") || path.ends_with("{}");
    (is_item && is_any(path)) || path.char_indices().filter(|(_, next)| ".[{".contains(*next)).any(inside)
}

/// A type may be narrower where a schema lists several kinds. What holds any JSON holds null, too, of a member that has to be there.
fn agree(typed: Option<&str>, listed: Option<&str>) -> bool {
    let (Some(typed), Some(listed)) = (typed, listed) else { return false };
    let (kind, optional) = split(typed);
    let (kinds, may_be_absent) = split(listed);
    let of_kind = kind == "any" || kinds.split('|').any(|listed| listed == kind);
    let holds_null = typed == "any" && kinds.split('|').any(|listed| listed == "null");
    of_kind && (optional == may_be_absent || holds_null)
}

fn split(kind: &str) -> (&str, bool) {
    kind.strip_suffix('?').map_or((kind, false), |kind| (kind, true))
}

fn record(schema: &Value, path: String, optional: bool, shape: &mut MemberShape) {
    if let Some(referred) = proto_schemas::referred(schema) {
        return record(referred, path, optional, shape);
    }
    if let Some(value) = value_or_null(schema) {
        return record(value, path, true, shape);
    }
    let mut kinds = kinds(schema);
    let nullable = kinds.contains(&"null");
    if optional {
        kinds.retain(|kind| *kind != "null");
    }
    if !path.is_empty() {
        let mark = if optional || nullable { "?" } else { "" };
        shape.insert(path.clone(), kinds.join("|") + mark);
    }
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        record(property, member(&path, name), !required.contains(&name.as_str()), shape);
    }
    if schema["items"].is_object() {
        record(&schema["items"], path.clone() + "[]", false, shape);
    }
    if schema["additionalProperties"].is_object() {
        record(&schema["additionalProperties"], path + "{}", false, shape);
    }
}

/// What a member is where it is not null: `anyOf` of a schema and of null, because a reference cannot say more.
fn value_or_null(schema: &Value) -> Option<&Value> {
    match schema["anyOf"].as_array()?.as_slice() {
        [value, null] if null["type"] == "null" => Some(value),
        _ => None,
    }
}

fn kinds(schema: &Value) -> Vec<&'static str> {
    let of_value = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let named = |name: &str| {
        ["null", "boolean", "number", "integer", "string", "array", "object"]
            .into_iter()
            .find(|kind| *kind == name)
    };
    if let Some(value) = schema.get("const") {
        return vec![of_value(value)];
    }
    if let Some(values) = schema["enum"].as_array() {
        let null = values.iter().any(Value::is_null).then_some("null");
        return once(of_value(&values[0])).chain(null).collect();
    }
    match &schema["type"] {
        Value::String(name) => named(name).into_iter().collect(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).filter_map(named).collect(),
        _ => vec!["any"],
    }
}

fn member(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Reads a type from nothing: it gives every member that is asked for, and writes down which.
struct Recorder<'a> {
    shape: &'a mut MemberShape,
    path: String,
    optional: bool,
}

impl Recorder<'_> {
    fn note(&mut self, kind: &str) {
        if !self.path.is_empty() {
            let mark = if self.optional { "?" } else { "" };
            self.shape.insert(self.path.clone(), format!("{kind}{mark}"));
        }
    }

    fn inside(&mut self, path: String) -> Recorder<'_> {
        Recorder { shape: self.shape, path, optional: false }
    }
}

impl<'de> Deserializer<'de> for Recorder<'_> {
    type Error = Error;

    /// Gives text: every type that reads several kinds of JSON reads text, too.
    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("any");
        visitor.visit_str(TEXT)
    }

    fn deserialize_bool<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("boolean");
        visitor.visit_bool(false)
    }

    fn deserialize_i64<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("integer");
        visitor.visit_i64(0)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("number");
        visitor.visit_f64(0.0)
    }

    fn deserialize_str<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("string");
        visitor.visit_str(TEXT)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note("string");
        let first: StrDeserializer<'_, Error> = variants[0].into_deserializer();
        visitor.visit_enum(first)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.optional = true;
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name != RAW {
            return visitor.visit_newtype_struct(self);
        }
        self.note("any");
        visitor.visit_map(MapDeserializer::new(once((RAW, "null"))))
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("array");
        visitor.visit_seq(OneItem(Some(self)))
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("object");
        visitor.visit_map(EveryMember { recorder: self, names: &[""], next: 0 })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note("object");
        visitor.visit_map(EveryMember { recorder: self, names, next: 0 })
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 u8 u16 f32 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

struct OneItem<'a>(Option<Recorder<'a>>);

impl<'de> SeqAccess<'de> for OneItem<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(mut recorder) = self.0.take() else { return Ok(None) };
        let path = recorder.path.clone() + "[]";
        seed.deserialize(recorder.inside(path)).map(Some)
    }
}

/// The members of a struct; the one member without a name stands for those of a map.
struct EveryMember<'a> {
    recorder: Recorder<'a>,
    names: &'static [&'static str],
    next: usize,
}

impl<'de> MapAccess<'de> for EveryMember<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(name) = self.names.get(self.next) else { return Ok(None) };
        let name: StrDeserializer<'_, Error> = (*name).into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let name = self.names[self.next];
        self.next += 1;
        let path = match name {
            "" => self.recorder.path.clone() + "{}",
            _ => member(&self.recorder.path, name),
        };
        seed.deserialize(self.recorder.inside(path))
    }
}
