//! The signature that an agent may add to a call.

use serde::de::{Deserializer, IgnoredAny};
use serde::{Deserialize, Serialize};

/// An agent's signature over a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientSignature {
    pub aid: String,
    pub cert_fingerprint: String,
    pub timestamp: String,
    pub params_hash: String,
    pub signature: String,
}

/// Reads past the signature of a call. The gateway has verified it before a service gets the call: no service reads it or passes
/// it on, and a copy of it would cost an allocation per call.
pub(super) fn unread<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<ClientSignature>>, D::Error> {
    Option::<IgnoredAny>::deserialize(deserializer)?;
    Ok(None)
}
