//! Why a request or a connection failed.

use std::net::SocketAddr;
use std::time::Duration;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("{0} is an address of a private network")]
    Private(SocketAddr),
    #[error("its name has no address")]
    NoAddress,
    #[error("no connection within {} ms", .0.as_millis())]
    LateConnection(Duration),
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    #[error("{0}")]
    Network(String),
}
