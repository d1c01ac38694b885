//! The name of an agent.

use super::error::Error;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// An AID: a name, a dot, and the domain that vouches for it; always in lower case. Whether a name is free, reserved or too
/// short is for the server to say; what is checked here keeps an AID usable as a folder's name and as a host's.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct AgentId(String);

impl AgentId {
    /// Reads an AID in any case.
    pub fn parse(text: &str) -> Result<AgentId, Error> {
        let text = text.trim().to_ascii_lowercase();
        let (name, issuer) = text.split_once('.').unwrap_or((&text, ""));
        let is_label = |label: &str| {
            !label.is_empty()
                && !label.starts_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if !(4..=63).contains(&name.len()) || !is_label(name) {
            return Err(Error::Invalid(format!(
                "the name of an AID has 4 to 63 characters of a-z, 0-9, '_' and '-' and does not begin with '-', and {name:?} does not"
            )));
        }
        if text.len() > 253 || !issuer.split('.').all(is_label) {
            return Err(Error::Invalid(format!("an AID is a name, a dot and a domain, and {text:?} is not")));
        }
        Ok(AgentId(text))
    }

    /// The whole AID.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the first dot.
    pub fn name(&self) -> &str {
        self.0.split_once('.').map_or("", |(name, _)| name)
    }

    /// The domain behind it.
    pub fn issuer(&self) -> &str {
        self.0.split_once('.').map_or("", |(_, issuer)| issuer)
    }
}

impl FromStr for AgentId {
    type Err = Error;

    fn from_str(text: &str) -> Result<AgentId, Error> {
        AgentId::parse(text)
    }
}

impl AsRef<str> for AgentId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for AgentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aid_is_a_name_and_a_domain() {
        let alice = AgentId::parse(" Alice.Agents.localhost ").unwrap();
        assert_eq!(
            (alice.as_str(), alice.name(), alice.issuer()),
            ("alice.agents.localhost", "alice", "agents.localhost")
        );
        let long = format!("{}.example", "a".repeat(64));
        for bad in [
            "",
            "alice",
            "abc.example",
            "-alice.example",
            "alice.",
            "alice..example",
            "ali/ce.example",
            &long,
        ] {
            assert!(AgentId::parse(bad).is_err(), "{bad}");
        }
    }
}
