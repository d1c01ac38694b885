//! The refusal of somebody who has too much.

use crate::{RpcError, codes};

/// The setting of those who are refused because there is little free space, and they have much.
pub(super) const FREE_BYTES: &str = "store.free_bytes";

/// What would be too much, by the setting that limits it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct AccountFull {
    pub sentence: String,
    pub scope: &'static str,
    pub limit: i64,
    /// What is kept now.
    pub held: i64,
    /// Where less of it counts after a while: how long that takes.
    pub retry_after_ms: Option<i64>,
}

impl From<AccountFull> for RpcError {
    fn from(full: AccountFull) -> RpcError {
        if full.scope == FREE_BYTES {
            return RpcError::no_space();
        }
        let error = RpcError::new(codes::RATE_LIMITED, &full)
            .with("scope", full.scope)
            .with("limit", full.limit)
            .with("held", full.held)
            .with("retryable", full.retry_after_ms.is_some());
        match full.retry_after_ms {
            Some(wait) => error.with("retry_after_ms", wait),
            None => error,
        }
    }
}
