//! The keys of other domains' authorities.

use serde::{Deserialize, Serialize};

use crate::Request;

/// `ca.pin_issuer`: keep the key of another domain's authority, the first time it is seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PinIssuer {
    pub domain: String,
    pub spki_fingerprint: String,
    pub root: String,
}

impl Request for PinIssuer {
    const METHOD: &'static str = "ca.pin_issuer";
    type Result = PinnedIssuer;
}

/// The key that counts for a domain, or counted until now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PinnedIssuer {
    pub domain: String,
    pub spki_fingerprint: String,
}

/// `ca.unpin_issuer`: accept another key of another domain's authority.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnpinIssuer {
    pub domain: String,
}

impl Request for UnpinIssuer {
    const METHOD: &'static str = "ca.unpin_issuer";
    type Result = PinnedIssuer;
}

/// `ca.get_issuer_pins`: get the keys of other domains' authorities.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GetIssuerPins {}

impl Request for GetIssuerPins {
    const METHOD: &'static str = "ca.get_issuer_pins";
    type Result = IssuerPins;
}

/// The key of each domain whose gateway was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IssuerPins {
    pub pins: Vec<ListedPin>,
}

/// The key of one domain's authority, and when it was seen first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListedPin {
    pub domain: String,
    pub spki_fingerprint: String,
    pub seen_at: i64,
}
