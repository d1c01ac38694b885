//! A few members of an object by their names, read in one pass over it and without copying anything.

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The values of these members as they are written; `None` for one that is absent or null. Where a name is listed twice, the
/// first one gets the value. A member that the object has twice is refused: others might read the other one.
pub fn named_members<'de, const N: usize>(
    object: &'de RawValue,
    names: [&str; N],
) -> serde_json::Result<[Option<&'de RawValue>; N]> {
    let mut json = serde_json::Deserializer::from_str(object.get());
    json.deserialize_map(NamedMembers(&names))
}

struct NamedMembers<'n, const N: usize>(&'n [&'n str; N]);

impl<'de, const N: usize> Visitor<'de> for NamedMembers<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(position) = members.next_key_seed(NamePosition(self.0))? {
            let Some(position) = position else {
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            let value: &RawValue = members.next_value()?;
            if found[position].replace(value).is_some() {
                return Err(A::Error::custom(format!("{} is given twice", self.0[position])));
            }
        }
        Ok(found.map(|value| value.filter(|value| value.get() != "null")))
    }
}

/// Reads a name, and gives its position among those that are wanted.
struct NamePosition<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for NamePosition<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Option<usize>, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for NamePosition<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|wanted| *wanted == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, names: [&str; 2]) -> Option<[Option<String>; 2]> {
        let object: Box<RawValue> = serde_json::from_str(text).unwrap();
        let found = named_members(&object, names).ok()?;
        Some(found.map(|value| value.map(|value| value.get().to_owned())))
    }

    #[test]
    fn members_are_found_however_they_are_written() {
        let some = |text: &str| Some(text.to_owned());
        for (text, found) in [
            (r#"{"to":"x","aids":["y", 1.50]}"#, Some([some("\"x\""), some("[\"y\", 1.50]")])),
            (r#"{ "other": {"to":"y"}, "\u0074o" : "x" }"#, Some([some("\"x\""), None])),
            (r#"{"to":null,"aids":{}}"#, Some([None, some("{}")])),
            (r#"{"other":1,"other":2}"#, Some([None, None])),
            ("{}", Some([None, None])),
            (r#"{"to":"x","\u0074o":"y"}"#, None),
            (r#"{"to":null,"to":"y"}"#, None),
            (r#"["to","x"]"#, None),
            ("null", None),
            ("7", None),
        ] {
            assert_eq!(read(text, ["to", "aids"]), found, "{text}");
        }
        assert_eq!(read(r#"{"to":"x"}"#, ["to", "to"]), Some([some("\"x\""), None]));
    }
}
