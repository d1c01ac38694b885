//! The signature that an agent may add to a call.

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
