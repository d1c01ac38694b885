//! The two curves of the protocol.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The curves of the protocol. The hash of a signature follows the signer's curve.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Curve {
    /// Agents; signs with SHA-256.
    #[serde(rename = "P-256")]
    P256,
    /// Authorities and services; signs with SHA-384.
    #[serde(rename = "P-384")]
    P384,
}

impl Curve {
    /// The protocol's name of the curve.
    pub fn as_str(self) -> &'static str {
        match self {
            Curve::P256 => "P-256",
            Curve::P384 => "P-384",
        }
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
