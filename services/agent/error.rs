//! What can go wrong in `agent.*`, and the code for each. These are read over HTTP, so each also names its status.

use crate::kernel::agent_md::AgentMdError;
use crate::kernel::{RpcError, codes};

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("agent_md_too_large: {0}")]
    TooLarge(String),
    #[error("the document is about {found}, not about {expected}")]
    OtherAgent { found: String, expected: String },
    #[error(transparent)]
    Document(AgentMdError),
    #[error(transparent)]
    Secret(AgentMdError),
    #[error("signature block {block}: {reason}")]
    Signature { block: usize, reason: String },
    #[error("agent.md of {0} changed meanwhile: read it again and repeat the change")]
    Changed(String),
    #[error("{0} has published no agent.md")]
    NotFound(String),
    #[error("{0}")]
    Bad(&'static str),
    #[error(transparent)]
    Other(#[from] RpcError),
    #[error(transparent)]
    Store(#[from] sqlx::Error),
}

impl From<AgentMdError> for Error {
    fn from(error: AgentMdError) -> Error {
        match error {
            AgentMdError::TooLarge { .. } => Error::TooLarge(error.to_string()),
            AgentMdError::Secret { .. } => Error::Secret(error),
            AgentMdError::FrontMatter(_) | AgentMdError::Block { .. } | AgentMdError::Nul { .. } => {
                Error::Document(error)
            }
        }
    }
}

impl From<Error> for RpcError {
    fn from(error: Error) -> RpcError {
        match error {
            Error::TooLarge(_) => RpcError::new(codes::INVALID_PARAMS, error).with("http_status", 413),
            Error::OtherAgent { .. } => {
                RpcError::new(codes::PERMISSION_DENIED, error).with("http_status", 403)
            }
            Error::Document(_) => RpcError::new(codes::INVALID_PARAMS, error).with("http_status", 400),
            // The word by which a client tells it from a document that is not well-formed.
            Error::Secret(_) => RpcError::new(codes::INVALID_PARAMS, error)
                .with("http_status", 422)
                .with("kind", "secret_detected"),
            Error::Signature { .. } => {
                RpcError::new(codes::SIGNATURE_INVALID, error).with("http_status", 400)
            }
            Error::Changed(_) => RpcError::new(codes::VERSION_CONFLICT, error).with("http_status", 412),
            Error::NotFound(_) => RpcError::new(codes::NOT_FOUND, error).with("http_status", 404),
            Error::Bad(_) => RpcError::new(codes::INVALID_PARAMS, error),
            Error::Other(error) => error,
            Error::Store(source) => source.into(),
        }
    }
}
