//! Ending tokens and identities with the key of the agent.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{Aid, Request};

/// `auth.revoke_cert`: log out everywhere, or end an identity permanently.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RevokeCert {
    pub aid: Aid,
    pub request_id: String,
    pub nonce: String,
    pub what: Option<RevocationTarget>,
    /// One of [`AGENT_REASONS`].
    pub reason: Option<String>,
    pub signature: String,
}

impl Request for RevokeCert {
    const METHOD: &'static str = "auth.revoke_cert";
    type Result = RevokedIdentity;
}

/// What an agent ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RevocationTarget {
    /// Every token and session.
    Tokens,
    /// Those, and every certificate.
    #[default]
    Aid,
}

impl RevocationTarget {
    /// As it is written, and signed.
    pub fn as_str(self) -> &'static str {
        match self {
            RevocationTarget::Tokens => "tokens",
            RevocationTarget::Aid => "aid",
        }
    }
}

/// The reason that counts where none is given.
pub const UNSPECIFIED: &str = "unspecified";

/// The reasons of RFC 5280 for which the certificate of an agent can end for good.
pub const AGENT_REASONS: [&str; 6] = [
    UNSPECIFIED,
    "keyCompromise",
    "affiliationChanged",
    "superseded",
    "cessationOfOperation",
    "privilegeWithdrawn",
];

impl RevokeCert {
    /// The text that the key of the agent signs.
    pub fn signed_text(nonce: &str, what: RevocationTarget, reason: &str) -> String {
        format!("{}:{nonce}:{}:{reason}", RevokeCert::METHOD, what.as_str())
    }
}

/// What has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RevokedIdentity {
    pub status: String,
    pub aid: Aid,
    pub what: RevocationTarget,
    pub serials: Vec<String>,
}
