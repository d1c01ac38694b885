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
    #[error("too many requests to its address are in progress")]
    Busy,
    #[error("{0}")]
    Network(String),
}

impl OutboundError {
    /// For the owner of the name, who must not learn from it which names there are in our network, or where they lead.
    pub fn for_owner(&self) -> String {
        match self {
            OutboundError::Private(_) | OutboundError::NoAddress => {
                "its name has no public address".to_owned()
            }
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_learns_nothing_of_names_inside() {
        let private = OutboundError::Private(([10, 0, 0, 7], 443).into());
        assert!(private.to_string().contains("10.0.0.7"), "the operator learns it");
        assert_eq!(private.for_owner(), "its name has no public address");
        assert_eq!(OutboundError::NoAddress.for_owner(), private.for_owner(), "whether it exists or not");
        assert_eq!(OutboundError::Late(Duration::from_secs(1)).for_owner(), "no answer within 1000 ms");
    }
}
