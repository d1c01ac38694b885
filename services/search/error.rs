//! What can go wrong in `search.*`, and the code for each.

use kernel::{PageLimitError, RpcError, codes};
use std::fmt;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("search is not enabled on this server")]
    Disabled,
    #[error("this server does not allow other domains to replicate its directory")]
    NotPublic,
    /// A parameter whose type is right and whose value is not; the sentence names it.
    #[error("{0}")]
    Param(String),
    #[error("no public agent.md of {0} was found")]
    NoAgent(String),
    #[error("{sentence}")]
    Query { sentence: String, reason: Option<&'static str> },
    #[error("snapshot {version} is not stored, start again with {newest}")]
    Stale { version: String, newest: String },
    #[error("change cursor expired")]
    CursorExpired { floor: String, snapshot: String, reason: &'static str },
    #[error("too many searches run right now, try again in a moment")]
    Busy,
    #[error(transparent)]
    Store(#[from] sqlx::Error),
    #[error("the index failed: {0:#}")]
    Index(anyhow::Error),
    #[error(transparent)]
    Other(#[from] RpcError),
}

impl Error {
    pub fn query(sentence: impl fmt::Display) -> Error {
        Error::Query { sentence: sentence.to_string(), reason: None }
    }
}

impl From<PageLimitError> for Error {
    fn from(error: PageLimitError) -> Error {
        Error::Param(error.to_string())
    }
}

impl From<Error> for RpcError {
    fn from(error: Error) -> RpcError {
        match error {
            Error::Disabled | Error::NotPublic => RpcError::new(codes::search::SEARCH_UNAVAILABLE, error),
            Error::Param(_) => RpcError::new(codes::INVALID_PARAMS, error),
            Error::NoAgent(_) => RpcError::new(codes::search::AGENT_NOT_FOUND, error),
            Error::Query { reason, .. } => {
                let answer = RpcError::new(codes::search::INVALID_QUERY, error);
                match reason {
                    Some(reason) => answer.with("reason", reason),
                    None => answer,
                }
            }
            Error::Stale { ref newest, .. } => {
                let newest = newest.clone();
                RpcError::new(codes::search::SNAPSHOT_STALE, error).with("snapshot_version", newest)
            }
            Error::CursorExpired { ref floor, ref snapshot, reason } => {
                let (floor, snapshot) = (floor.clone(), snapshot.clone());
                RpcError::new(codes::search::CHANGE_CURSOR_EXPIRED, error)
                    .with("floor_cursor", floor)
                    .with("snapshot_version", snapshot)
                    .with("reason", reason)
            }
            Error::Busy => RpcError::new(codes::UNAVAILABLE, error),
            Error::Store(source) => source.into(),
            Error::Index(cause) => RpcError::internal(cause),
            Error::Other(error) => error,
        }
    }
}
