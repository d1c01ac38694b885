//! What can go wrong in `ca.*`, and the code for each.

use certs::CertError;
use kernel::{BatchError, PageLimitError, RpcError, codes};

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{0} already exists and belongs to another key")]
    OtherKey(String),
    #[error("{0} already exists and was revoked; the name cannot be registered again")]
    NameRevoked(String),
    #[error("{0} still exists until the data of its last holder is removed; try again in one day")]
    NameKept(String),
    #[error("{aid} is not a name under {issuer}")]
    ForeignIssuer { aid: String, issuer: String },
    #[error("the {service} service may not have a certificate for {name}: only for its own names")]
    OtherService { service: String, name: String },
    #[error("public_key: {0}")]
    Key(String),
    #[error("{0}")]
    Bad(String),
    #[error("certificate {0} not found")]
    NotFound(String),
    #[error("trusted root {0} not found")]
    RootNotFound(String),
    #[error("no key is pinned for the authority of {0}")]
    PinNotFound(String),
    #[error("too many pinned domains under one root (limit {0})")]
    PinsFull(i64),
    #[error("the list of trusted roots has not been published yet")]
    NoTrustList,
    #[error("the list of trusted roots cannot be read: {0}")]
    TrustList(#[from] serde_json::Error),
    #[error("the list of trusted roots was changed concurrently at every attempt")]
    TrustListContended,
    #[error("the root of this domain cannot be removed from its own list")]
    OwnRoot,
    #[error("the list of trusted roots is full: it holds {0} roots of other operators")]
    Full(usize),
    #[error("certificate {0} is no longer active")]
    Superseded(String),
    #[error(
        "the certificates of {aid} are revoked, and its tokens and connections end as soon as auth answers: {cause}"
    )]
    TokensRemain { aid: String, cause: RpcError },
    #[error(
        "{aid} got {limit} certificates within a day; another key can be certified in {retry_after_ms} ms"
    )]
    TooManyCertificates { aid: String, limit: i64, retry_after_ms: i64 },
    #[error("signing failed: {0}")]
    Signing(#[from] CertError),
    #[error(transparent)]
    Other(#[from] RpcError),
    #[error(transparent)]
    Queue(#[from] BatchError),
    #[error(transparent)]
    Store(#[from] sqlx::Error),
}

impl From<PageLimitError> for Error {
    fn from(error: PageLimitError) -> Error {
        Error::Bad(error.to_string())
    }
}

impl From<Error> for RpcError {
    fn from(error: Error) -> RpcError {
        match error {
            Error::OtherKey(_) | Error::NameRevoked(_) | Error::NameKept(_) => {
                RpcError::new(codes::AID_EXISTS, error)
            }
            Error::ForeignIssuer { .. }
            | Error::Key(_)
            | Error::Bad(_)
            | Error::OwnRoot
            | Error::Full(_)
            | Error::PinsFull(_) => RpcError::new(codes::INVALID_PARAMS, error),
            Error::NotFound(_) | Error::RootNotFound(_) | Error::PinNotFound(_) => {
                RpcError::new(codes::NOT_FOUND, error)
            }
            Error::OtherService { .. } => RpcError::new(codes::PERMISSION_DENIED, error),
            Error::Superseded(_) => RpcError::new(codes::VERSION_CONFLICT, error),
            Error::TooManyCertificates { limit, retry_after_ms, .. } => {
                RpcError::new(codes::RATE_LIMITED, error)
                    .with("http_status", 429)
                    .with("retry_after_ms", retry_after_ms)
                    .with("limit", limit)
                    .with("scope", "ca.certificates_per_day")
            }
            Error::Signing(source) => RpcError::internal(source),
            Error::NoTrustList | Error::TrustListContended | Error::TokensRemain { .. } => {
                RpcError::new(codes::UNAVAILABLE, error)
            }
            Error::TrustList(source) => {
                RpcError::unavailable("the list of trusted roots cannot be read", source)
            }
            Error::Other(error) => error,
            Error::Queue(source) => source.into(),
            Error::Store(source) => source.into(),
        }
    }
}
