//! What can go wrong in `auth.*`, and the code for each.

use kernel::{AidError, BatchError, RpcError, codes};

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("aid: {0}")]
    Aid(#[from] AidError),
    #[error("aid must be in lower case, and is {0:?}")]
    NotLowerCase(String),
    #[error("aid: the name {0} is reserved")]
    Reserved(String),
    #[error("aid must be a name under {issuer}, and is {aid}")]
    ForeignIssuer { aid: String, issuer: String },
    #[error("curve must be P-256 for the first certificate of an agent, and is {0}")]
    Curve(String),
    #[error("aid must be the agent of this session, {session}, and is {wanted}")]
    NotYours { wanted: String, session: String },
    #[error("{0}")]
    Param(String),
    #[error("cert: {0}")]
    Certificate(String),
    #[error("certificate {0} was revoked")]
    Revoked(String),
    #[error("the certificate of {0} is not registered")]
    NotRegistered(String),
    #[error("the certificate of {0} was replaced by one for another key")]
    Replaced(String),
    #[error("the certificate expired; renew it with auth.renew_cert")]
    Expired,
    #[error("nonce: {0}")]
    Nonce(&'static str),
    #[error("signature must be made by the key of the certificate given to auth.aid_login1")]
    Signature,
    #[error("proof must be made by the new key, over the text that signature covers")]
    Proof,
    #[error("certificate {0} not found")]
    NoCertificate(String),
    #[error("token: {0}")]
    Token(String),
    #[error(transparent)]
    Other(#[from] RpcError),
    #[error(transparent)]
    Queue(#[from] BatchError),
    #[error(transparent)]
    Store(#[from] sqlx::Error),
}

impl From<Error> for RpcError {
    fn from(error: Error) -> RpcError {
        match error {
            Error::Aid(_)
            | Error::NotLowerCase(_)
            | Error::Reserved(_)
            | Error::ForeignIssuer { .. }
            | Error::Curve(_)
            | Error::Param(_) => RpcError::new(codes::INVALID_PARAMS, error),
            Error::NotYours { .. } => RpcError::new(codes::PERMISSION_DENIED, error),
            Error::Certificate(_) | Error::Expired | Error::Nonce(_) => {
                RpcError::new(codes::CERT_OR_NONCE_INVALID, error)
            }
            Error::Revoked(_) => RpcError::new(codes::CERT_REVOKED, error),
            Error::NotRegistered(_) | Error::Replaced(_) => RpcError::new(codes::NOT_REGISTERED, error),
            Error::Token(_) => RpcError::new(codes::TOKEN_INVALID, error),
            Error::Signature | Error::Proof => RpcError::new(codes::SIGNATURE_INVALID, error),
            Error::NoCertificate(_) => RpcError::new(codes::NOT_FOUND, error),
            Error::Other(error) => error,
            Error::Queue(source) => source.into(),
            Error::Store(source) => source.into(),
        }
    }
}
