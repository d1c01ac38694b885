//! What can go wrong in `message.*`, and the code for each.

use super::envelope::EnvelopeError;
use crate::kernel::{Aid, BatchError, RpcError, codes};

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// A parameter whose type is right and whose value is not; the sentence names it.
    #[error("{0}")]
    Param(String),
    #[error("{0} is not registered here")]
    NoRecipient(Aid),
    #[error("{aid} has no device {device:?}")]
    NoDevice { aid: Aid, device: String },
    #[error("{0} is another domain, which cannot be reached from here")]
    Foreign(String),
    #[error("{0} is not of this domain, and what comes from another one is not passed on")]
    NoTransit(Aid),
    #[error("{0} belongs to another agent")]
    NotYours(String),
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The client drops a cursor of an earlier life of the server when it reads these words.
    #[error("volatile cursor epoch mismatch: the server was restarted since")]
    OldEpoch,
    #[error("the store is behind: {0} bytes already wait to be filed")]
    Behind(usize),
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Other(#[from] RpcError),
    #[error(transparent)]
    Store(#[from] sqlx::Error),
}

impl From<Error> for RpcError {
    fn from(error: Error) -> RpcError {
        match error {
            Error::Param(_) | Error::OldEpoch => RpcError::new(codes::INVALID_PARAMS, error),
            Error::NoRecipient(_) => RpcError::new(codes::NOT_FOUND, error),
            Error::NoDevice { .. } => RpcError::new(codes::DEVICE_NOT_FOUND, error),
            Error::Foreign(ref issuer) => {
                let issuer = issuer.clone();
                RpcError::new(codes::FEDERATION_UNREACHABLE, error)
                    .with("reason", "no_gateway")
                    .with("phase", "connect")
                    .with("target_issuer", issuer)
            }
            Error::NoTransit(_) => {
                RpcError::new(codes::FEDERATION_REFUSED, error).with("reason", "target_not_local")
            }
            Error::NotYours(_) => RpcError::new(codes::PERMISSION_DENIED, error),
            Error::Envelope(EnvelopeError::Recipient(_)) => RpcError::new(codes::RECIPIENT_MISMATCH, error),
            Error::Envelope(EnvelopeError::Form(_)) => RpcError::new(codes::ENVELOPE_INVALID, error),
            Error::Envelope(EnvelopeError::Aad(_)) => RpcError::new(codes::AAD_MISMATCH, error),
            Error::Behind(_) => RpcError::store(error),
            Error::Batch(source) => source.into(),
            Error::Other(error) => error,
            Error::Store(source) => source.into(),
        }
    }
}
