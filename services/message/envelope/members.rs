//! The members of an envelope: those that are read, and all others as they came.

use super::{EnvelopeError, form};
use kernel::{Aid, CallingAgent};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Longer ids would make lookups by them slow.
const MAX_ID_BYTES: usize = 256;

#[derive(Deserialize)]
pub(super) struct EnvelopeType {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub version: Option<String>,
}

/// Only the type: whatever else is in it, it is read.
#[derive(Deserialize)]
pub(super) struct PayloadType {
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct DeviceCopies {
    pub recipient_copies: Vec<Copy>,
    pub self_copies: Option<Vec<Copy>>,
}

#[derive(Deserialize)]
pub(super) struct Copy {
    #[serde(default)]
    pub device_id: String,
    pub envelope: Box<RawValue>,
}

/// Borrowed wherever nothing is escaped.
#[derive(Deserialize)]
pub(super) struct BorrowedText<'a>(#[serde(borrow)] pub Cow<'a, str>);

pub(super) struct EnvelopeMembers<'a> {
    pub recipients: Vec<[BorrowedText<'a>; 8]>,
    pub recipients_digest: Cow<'a, str>,
    pub aad: Aad<'a>,
    pub t_send: Option<i64>,
    pub body: Box<RawValue>,
}

/// What the sender authenticated, as far as the server can compare it.
#[derive(Deserialize)]
pub(super) struct Aad<'a> {
    #[serde(borrow)]
    from: Cow<'a, str>,
    #[serde(borrow)]
    from_device: Cow<'a, str>,
    #[serde(borrow)]
    to: Cow<'a, str>,
    #[serde(borrow)]
    message_id: Cow<'a, str>,
}

impl<'a> EnvelopeMembers<'a> {
    pub fn read(payload: &'a RawValue) -> Result<EnvelopeMembers<'a>, EnvelopeError> {
        let ReadMembers { recipients, digest, aad, t_send, body } =
            serde_json::from_str(payload.get()).map_err(form)?;
        let missing = |name: &str| EnvelopeError::Form(format!("the envelope has no {name}"));
        let body = RawValue::from_string(body).map_err(form)?;
        Ok(EnvelopeMembers {
            recipients: recipients.ok_or_else(|| missing("recipients"))?,
            recipients_digest: digest.ok_or_else(|| missing("recipients_digest"))?.0,
            aad: aad.ok_or_else(|| missing("aad"))?,
            t_send: t_send.flatten(),
            body,
        })
    }
}

impl Aad<'_> {
    /// Gives the id of the message; the one beside the envelope, if there is one, must be the same.
    pub fn check(
        self,
        from: &CallingAgent,
        to: &Aid,
        message_id: Option<&str>,
    ) -> Result<String, EnvelopeError> {
        let same = [
            ("from", &self.from, from.aid.as_str(), "the sender"),
            ("from_device", &self.from_device, from.device.as_str(), "the sending device"),
            ("to", &self.to, to.as_str(), "the recipient"),
            ("message_id", &self.message_id, message_id.unwrap_or(&self.message_id), "that of the message"),
        ];
        if let Some((name, .., wanted)) = same.iter().find(|(_, found, wanted, _)| **found != *wanted) {
            return Err(EnvelopeError::Aad(format!("aad.{name} must be {wanted}")));
        }
        if self.message_id.is_empty() || self.message_id.len() > MAX_ID_BYTES {
            return Err(EnvelopeError::Aad(format!("aad.message_id must have 1 to {MAX_ID_BYTES} bytes")));
        }
        Ok(self.message_id.into_owned())
    }
}

/// One pass over the members: some are read, all but `recipients` are written to the body.
#[derive(Default)]
struct ReadMembers<'a> {
    recipients: Option<Vec<[BorrowedText<'a>; 8]>>,
    digest: Option<BorrowedText<'a>>,
    aad: Option<Aad<'a>>,
    t_send: Option<Option<i64>>,
    body: String,
}

impl<'a> ReadMembers<'a> {
    fn member<E: serde::de::Error>(&mut self, key: &str, value: &'a RawValue) -> Result<(), E> {
        let twice = match key {
            "recipients" => return self.recipients(value),
            // The server adds these, for each reader.
            "recipient" | "merkle_proof" | "delivery_device_id" => return Ok(()),
            "recipients_digest" => self.digest.replace(read(value)?).is_some(),
            // A struct could be read from a list, too.
            "aad" if !value.get().starts_with('{') => return Err(E::custom("aad must be an object")),
            "aad" => self.aad.replace(read(value)?).is_some(),
            "t_send" => self.t_send.replace(read(value)?).is_some(),
            _ => false,
        };
        if twice {
            return Err(E::custom(format_args!("{key} occurs twice")));
        }
        self.body.push(if self.body.is_empty() { '{' } else { ',' });
        self.body.push_str(&serde_json::Value::from(key).to_string());
        self.body.push(':');
        self.body.push_str(value.get());
        Ok(())
    }

    fn recipients<E: serde::de::Error>(&mut self, value: &'a RawValue) -> Result<(), E> {
        match self.recipients.replace(read(value)?) {
            None => Ok(()),
            Some(_) => Err(E::custom("recipients is given twice")),
        }
    }
}

fn read<'a, T: Deserialize<'a>, E: serde::de::Error>(value: &'a RawValue) -> Result<T, E> {
    serde_json::from_str(value.get()).map_err(E::custom)
}

impl<'de> Deserialize<'de> for ReadMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ReadMembers<'de>, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = ReadMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReadMembers<'de>, A::Error> {
                let mut parts = ReadMembers::default();
                while let Some((BorrowedText(key), value)) =
                    map.next_entry::<BorrowedText<'de>, &'de RawValue>()?
                {
                    parts.member::<A::Error>(&key, value)?;
                }
                if parts.body.is_empty() {
                    return Err(A::Error::custom("it has no members"));
                }
                parts.body.push('}');
                Ok(parts)
            }
        }
        deserializer.deserialize_map(Walk)
    }
}
