//! What `auth` tells the other processes.

use serde::{Deserialize, Serialize};

use crate::Signal;

/// `auth.tokens_revoked`: all tokens that an agent was given until `revoked_at`, in seconds, have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokensRevoked {
    pub aid: String,
    pub revoked_at: i64,
}

impl Signal for TokensRevoked {
    const NAME: &'static str = "auth.tokens_revoked";
}
