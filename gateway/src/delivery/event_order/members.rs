//! Reads the members of an event that order it, and nothing else of it.

use proto_schemas::EventOrderRule;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

pub(super) struct OrderMembers {
    pub number: i64,
    /// The values of the members of the key, in its order; empty where the event does not have one.
    pub values: Vec<String>,
}

impl OrderMembers {
    /// `None` if the event has no number: then nothing orders it.
    pub fn read(params: &RawValue, rule: EventOrderRule) -> Option<OrderMembers> {
        let mut json = serde_json::Deserializer::from_str(params.get());
        OrderMembersSeed(rule).deserialize(&mut json).ok()
    }
}

struct OrderMembersSeed(EventOrderRule);

impl<'de> DeserializeSeed<'de> for OrderMembersSeed {
    type Value = OrderMembers;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<OrderMembers, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OrderMembersSeed {
    type Value = OrderMembers;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("the parameters of an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<OrderMembers, A::Error> {
        let EventOrderRule { key, number: counted, .. } = self.0;
        let (mut number, mut values) = (None, vec![String::new(); key.len()]);
        while let Some(OrderMemberName(name)) = members.next_key()? {
            if name == counted {
                number = Some(members.next_value()?);
            } else if let Some(at) = key.iter().position(|member| *member == name) {
                let KeyValue(value) = members.next_value()?;
                values[at] = value;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(OrderMembers { number: number.ok_or_else(|| A::Error::missing_field(counted))?, values })
    }
}

#[derive(Deserialize)]
#[serde(transparent)]
struct OrderMemberName<'a>(#[serde(borrow)] Cow<'a, str>);

/// A name or a number, as text.
struct KeyValue(String);

impl<'de> Deserialize<'de> for KeyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeyValue, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum NameOrNumber {
            Name(String),
            Number(i64),
            Nothing(()),
        }
        Ok(KeyValue(match NameOrNumber::deserialize(deserializer)? {
            NameOrNumber::Name(name) => name,
            NameOrNumber::Number(number) => number.to_string(),
            NameOrNumber::Nothing(()) => String::new(),
        }))
    }
}
