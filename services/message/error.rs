//! What can go wrong in `message.*`, and the code for each.

use super::envelope::EnvelopeError;
use super::store::ephemeral::volatile::OldEpoch;
use super::store::error::StoreError;
use super::store::tool_calls::window::{TOOL_CALL_LIMIT, TOOL_CALL_WINDOW_MS};
use kernel::{AccountFull, Aid, BatchError, RpcError, codes};

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// A parameter whose type is right and whose value is not; the sentence names it.
    #[error("{0}")]
    Param(String),
    /// A service has a certificate of its domain, too, and no inbox.
    #[error("{0} is not registered as an agent")]
    NoRecipient(Aid),
    #[error("{aid} has no device {device:?}")]
    NoDevice { aid: Aid, device: String },
    /// An encrypted message is for devices that have keys; there is nothing it could wait for.
    #[error("{0} has no registered devices that could read this message")]
    NoDevices(Aid),
    #[error("{0} is another domain, which cannot be reached")]
    Foreign(String),
    #[error("{0} is not an agent of this domain, and relays are not forwarded")]
    NoTransit(Aid),
    #[error("{0} belongs to another agent")]
    NotYours(String),
    #[error(
        "an agent may send at most {limit} tool calls per minute; try again in {retry_after_ms} ms",
        limit = TOOL_CALL_LIMIT
    )]
    TooManyToolCalls { retry_after_ms: i64 },
    #[error(transparent)]
    Quota(#[from] AccountFull),
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    #[error(transparent)]
    OldEpoch(#[from] OldEpoch),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error(transparent)]
    Queue(#[from] BatchError),
    #[error(transparent)]
    Other(#[from] RpcError),
}

impl Error {
    /// Whether it may come from devices that were cached and have changed since.
    pub fn is_about_devices(&self) -> bool {
        matches!(self, Error::NoDevice { .. } | Error::NoDevices(_))
    }
}

impl From<Error> for RpcError {
    fn from(error: Error) -> RpcError {
        match error {
            Error::Param(_) | Error::OldEpoch(_) => RpcError::new(codes::INVALID_PARAMS, error),
            Error::NoRecipient(_) => RpcError::new(codes::NOT_FOUND, error),
            Error::NoDevice { .. } | Error::NoDevices(_) => {
                RpcError::new(codes::message::DEVICE_NOT_FOUND, error)
            }
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
            Error::TooManyToolCalls { retry_after_ms } => RpcError::new(codes::RATE_LIMITED, error)
                .with("http_status", 429)
                .with("retry_after_ms", retry_after_ms)
                .with("limit", TOOL_CALL_LIMIT)
                .with("window_ms", TOOL_CALL_WINDOW_MS)
                .with("scope", "agent.tool_call"),
            Error::Quota(full) => RpcError::from(full).with("http_status", 429),
            Error::Envelope(EnvelopeError::Recipient(_)) => {
                RpcError::new(codes::message::RECIPIENT_MISMATCH, error)
            }
            Error::Envelope(EnvelopeError::Form(_)) => RpcError::new(codes::message::ENVELOPE_INVALID, error),
            Error::Envelope(EnvelopeError::Aad(_)) => RpcError::new(codes::message::AAD_MISMATCH, error),
            Error::Store(source) if source.is_disk_full() => RpcError::no_space().caused_by(source),
            Error::Store(source) => RpcError::store(source),
            Error::Sql(source) => source.into(),
            Error::Queue(source) => source.into(),
            Error::Other(error) => error,
        }
    }
}
