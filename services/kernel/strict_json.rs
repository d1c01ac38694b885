//! JSON as strictly as the strictest client reads it.
//!
//! What one agent sends reaches others, and some of them drop their connection over a duplicate key, a number beyond 53
//! bits or a lone surrogate. So the gateway refuses these, and anything nested deeper than any message needs.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// How deep arrays and objects may be nested.
pub const DEPTH: usize = 64;
/// 2^53 - 1: the largest integer every client can hold.
const SAFE: u64 = 9_007_199_254_740_991;
/// Up to this many keys are kept without an allocation and compared one by one.
const FEW: usize = 8;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Flaw {
    #[error("invalid JSON: {0}")]
    Syntax(String),
    /// JSON that must not be passed on.
    #[error("{0}")]
    Forbidden(String),
}

/// The members of an object in the order of their names, their values as they were written.
pub type ObjectMembers<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Takes an object apart without copying its values, nor names without escapes.
pub fn members(text: &str) -> serde_json::Result<ObjectMembers<'_>> {
    #[derive(serde::Deserialize, PartialEq, Eq, PartialOrd, Ord)]
    #[serde(transparent)]
    struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);
    let named: BTreeMap<MemberName<'_>, &RawValue> = serde_json::from_str(text)?;
    Ok(named.into_iter().map(|(MemberName(name), value)| (name, value)).collect())
}

/// Reads the whole text once and gives the first flaw, with its line and column.
pub fn check(text: &str) -> Result<(), Flaw> {
    let mut json = serde_json::Deserializer::from_str(text);
    let read = StrictJson { depth: 0 }.deserialize(&mut json).and_then(|()| json.end());
    read.map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Flaw::Forbidden(error.to_string()),
        _ => Flaw::Syntax(error.to_string()),
    })
}

#[derive(Clone, Copy)]
struct StrictJson {
    depth: usize,
}

impl StrictJson {
    fn deeper<E: Error>(self) -> Result<StrictJson, E> {
        if self.depth == DEPTH {
            return Err(E::custom(format_args!("nested deeper than {DEPTH} levels")));
        }
        Ok(StrictJson { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for StrictJson {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictJson {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        if number > SAFE { Err(E::custom("an integer beyond 2^53-1")) } else { Ok(()) }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.visit_u64(number.unsigned_abs())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        if number.abs() > SAFE as f64 { Err(E::custom("a number beyond 2^53-1")) } else { Ok(()) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let deeper = self.deeper()?;
        while items.next_element_seed(deeper)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let deeper = self.deeper()?;
        let mut keys = ObjectKeys::default();
        while let Some(ObjectKey(key)) = members.next_key()? {
            keys.add(key)?;
            members.next_value_seed(deeper)?;
        }
        Ok(())
    }
}

/// A key that borrows from the text unless it has escapes.
pub struct ObjectKey<'de>(pub Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for ObjectKey<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ObjectKey<'de>, D::Error> {
        struct ObjectKeyVisitor;
        impl<'de> Visitor<'de> for ObjectKeyVisitor {
            type Value = ObjectKey<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<ObjectKey<'de>, E> {
                Ok(ObjectKey(Cow::Borrowed(key)))
            }
            fn visit_str<E>(self, key: &str) -> Result<ObjectKey<'de>, E> {
                Ok(ObjectKey(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(ObjectKeyVisitor)
    }
}

/// The keys of one object so far. A few need no allocation, unless they have escapes.
#[derive(Default)]
pub struct ObjectKeys<'de> {
    few: [&'de str; FEW],
    count: usize,
    others: Option<HashSet<Cow<'de, str>>>,
}

impl<'de> ObjectKeys<'de> {
    pub fn add<E: Error>(&mut self, key: Cow<'de, str>) -> Result<(), E> {
        let other = || self.others.as_ref().is_some_and(|others| others.contains(&key));
        if self.few[..self.count].contains(&&*key) || other() {
            // It is not named, because the sentence is shown, and some write a secret as a key. Line and column say which it is.
            return Err(E::custom("a key twice in one object"));
        }
        match key {
            Cow::Borrowed(key) if self.count < FEW => {
                self.few[self.count] = key;
                self.count += 1;
            }
            key => {
                self.others.get_or_insert_default().insert(key);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testing::cases;

    fn forbidden(text: &str) -> String {
        match check(text) {
            Err(Flaw::Forbidden(reason)) => reason,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn numbers_end_at_53_bits() {
        check("[9007199254740991, -9007199254740991, 1.5, 1e3]").unwrap();
        for text in ["9007199254740992", "[-9007199254740992]", "1e20", "{\"a\":18446744073709551616}"] {
            assert!(forbidden(text).contains("2^53-1"));
        }
    }

    #[test]
    fn a_key_stands_once_in_an_object_at_every_depth() {
        let twice = |column: usize| format!("a key twice in one object at line 1 column {column}");
        assert_eq!(forbidden(r#"{"a":1,"b":{"c":1,"c":2}}"#), twice(21));
        for text in [r#"{"a":1,"\u0061":2}"#, r#"{"\u0061":1,"a":2}"#, r#"{"\u0061":1,"\u0061":2}"#] {
            assert!(forbidden(text).starts_with("a key twice"), "escapes are the same key: {text}");
        }
        let secret = r#"{"sk-0123456789abcdef":1,"sk-0123456789abcdef":2}"#;
        assert!(!forbidden(secret).contains("sk-"), "it may be a secret");
        let many: Vec<String> = (0..40).map(|n| format!("\"k{n}\":0")).collect();
        check(&format!("{{{}}}", many.join(","))).unwrap();
        forbidden(&format!("{{{},\"k7\":1}}", many.join(",")));
        check(r#"[{"a":1},{"a":1}]"#).unwrap();
    }

    #[test]
    fn depth_ends() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        check(&nested(DEPTH)).unwrap();
        assert!(forbidden(&nested(DEPTH + 1)).contains("deeper"));
        assert!(check(&"[".repeat(500_000)).is_err());
    }

    #[test]
    fn what_is_not_json_is_a_syntax_flaw() {
        for text in ["", "{", "{\"a\":}", "nul", "\"\\ud800\"", "1 2", "NaN", "{\"a\":1,}", "\u{feff}{}"] {
            assert!(matches!(check(text), Err(Flaw::Syntax(_))), "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn it_agrees_with_serde_json_on_what_is_json(text in "[\\[\\]{}\",:0-9a-z\\\\ .eE+-]{0,40}") {
            let json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            match check(&text) {
                Ok(()) => prop_assert!(json),
                Err(Flaw::Syntax(_)) => prop_assert!(!json),
                Err(Flaw::Forbidden(_)) => {}
            }
        }
    }
}
