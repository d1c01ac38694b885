//! The names of the protocol that have rules: an agent's AID, its devices, and the slots on them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

/// An agent's name, `{name}.{issuer}`, split at the first dot; always lower case. It can be the name of a host and of a folder. Cheap to
/// clone, like the other names.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Aid(Arc<str>);

/// Why a text is not the name of an agent, a device or a slot.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AidError {
    #[error("an AID must have the form name.issuer, and {0:?} has no dot")]
    NoIssuer(String),
    #[error(
        "the name of an AID must be 4 to 63 characters of a-z, 0-9, '_' and '-', not beginning with '-', and not {0:?}"
    )]
    Name(String),
    #[error("the issuer of an AID must be a domain, and not {0:?}")]
    Issuer(String),
    #[error("a device id must be at most 128 characters of A-Z, a-z, 0-9, '.', '_' and '-', and not {0:?}")]
    Device(String),
    #[error(
        "a slot id must be at most 128 characters of A-Z, a-z, 0-9, '.', '_', '-', '/', ':' and space, and not {0:?}"
    )]
    Slot(String),
}

impl Aid {
    /// Reads an AID in any case and keeps it in lower case.
    pub fn parse(text: &str) -> Result<Aid, AidError> {
        let text = text.trim().to_ascii_lowercase();
        let Some((name, issuer)) = text.split_once('.') else { return Err(AidError::NoIssuer(short(&text))) };
        if !is_name(name) {
            return Err(AidError::Name(short(name)));
        }
        if !is_issuer(issuer) {
            return Err(AidError::Issuer(short(issuer)));
        }
        Ok(Aid(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the first dot.
    pub fn name(&self) -> &str {
        self.0.split_once('.').map_or("", |(name, _)| name)
    }

    /// The domain whose authority vouches for this name.
    pub fn issuer(&self) -> &str {
        self.0.split_once('.').map_or("", |(_, issuer)| issuer)
    }
}

/// A DNS label can hold 63 characters, and `https://{aid}/` must resolve.
fn is_name(name: &str) -> bool {
    (4..=63).contains(&name.len())
        && !name.starts_with('-')
        && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

fn is_issuer(issuer: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    issuer.len() <= 190
        && edge(issuer.bytes().next())
        && edge(issuer.bytes().last())
        && issuer.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
        && !issuer.contains("..")
}

/// What an error repeats of the caller's text.
fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

impl AsRef<str> for Aid {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Aid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Aid {
    type Error = AidError;
    fn try_from(text: String) -> Result<Aid, AidError> {
        Aid::parse(&text)
    }
}

impl Serialize for Aid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// One installation of an agent. Empty for clients that predate devices.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct DeviceId(Arc<str>);

impl DeviceId {
    pub fn parse(text: &str) -> Result<DeviceId, AidError> {
        let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if text.len() > 128 || !text.bytes().all(fine) {
            return Err(AidError::Device(short(text)));
        }
        Ok(DeviceId(text.into()))
    }

    /// The device by which messages go to the webhook of an agent.
    pub fn webhook() -> DeviceId {
        DeviceId("webhook".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<String> for DeviceId {
    type Error = AidError;
    fn try_from(text: String) -> Result<DeviceId, AidError> {
        DeviceId::parse(&text)
    }
}

impl Serialize for DeviceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// One of several runs of an agent on the same device.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct SlotId(Arc<str>);

impl SlotId {
    pub fn parse(text: &str) -> Result<SlotId, AidError> {
        let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'/' | b' ' | b':');
        let first = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if text.len() > 128 || !text.bytes().all(fine) || !text.bytes().next().is_none_or(first) {
            return Err(AidError::Slot(short(text)));
        }
        Ok(SlotId(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The isolation key: the text before the first `/`, `:` or space. Limits and cursors go by it, so that
    /// `evolclaw cli` and `evolclaw/web` share one slot.
    pub fn key(&self) -> &str {
        self.0.split(['/', ':', ' ']).next().unwrap_or("")
    }
}

impl TryFrom<String> for SlotId {
    type Error = AidError;
    fn try_from(text: String) -> Result<SlotId, AidError> {
        SlotId::parse(&text)
    }
}

impl Serialize for SlotId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_aid_is_split_at_the_first_dot() {
        let aid = Aid::parse("alice.agents.localhost").unwrap();
        assert_eq!((aid.name(), aid.issuer()), ("alice", "agents.localhost"));
    }

    #[test]
    fn case_does_not_matter_and_is_not_kept() {
        assert_eq!(Aid::parse("Alice.AID.pub").unwrap(), Aid::parse("alice.aid.pub").unwrap());
    }

    #[test]
    fn bad_names_are_refused_with_the_reason() {
        assert!(matches!(Aid::parse("alice"), Err(AidError::NoIssuer(_))));
        for name in ["abc", "-abcd", "al ice", "älice", &"a".repeat(64)] {
            assert!(matches!(Aid::parse(&format!("{name}.aid.pub")), Err(AidError::Name(_))), "{name}");
        }
        for issuer in ["", "-aid.pub", "aid..pub", "aid.pub.", "aid/pub", "..", "../x"] {
            assert!(matches!(Aid::parse(&format!("alice.{issuer}")), Err(AidError::Issuer(_))), "{issuer}");
        }
    }

    #[test]
    fn slots_that_differ_after_a_separator_share_a_key() {
        for text in ["evolclaw cli", "evolclaw/cli", "evolclaw:x", "evolclaw"] {
            assert_eq!(SlotId::parse(text).unwrap().key(), "evolclaw");
        }
        assert!(SlotId::parse("/x").is_err());
        assert!(SlotId::parse("").unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn what_parses_prints_back_and_parses_again(text in "\\PC{0,80}") {
            if let Ok(aid) = Aid::parse(&text) {
                prop_assert_eq!(&Aid::parse(aid.as_str()).unwrap(), &aid);
                prop_assert_eq!(format!("{}.{}", aid.name(), aid.issuer()), aid.as_str());
            }
        }
    }
}
