//! What can go wrong between an agent and its gateway.

use proto_schemas::AidError;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why something an agent wanted did not happen.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered with an error. `error` is the whole object of the answer.
    #[error("{method} was refused: {message} ({code})")]
    Refused {
        /// The method that was called.
        method: String,
        /// The code of the error, as `errors.json` lists them.
        code: i64,
        /// The server's sentence.
        message: String,
        /// The error object as it came.
        error: Value,
    },
    /// The server answered a request over HTTP with an error.
    #[error("{request} was refused: {message} ({status})")]
    HttpRefused {
        /// The request, such as `PUT /agent.md`.
        request: String,
        /// The status of the answer.
        status: u16,
        /// What went wrong in a word, such as `signature_invalid`; empty if the server did not say.
        kind: String,
        /// The server's sentence.
        message: String,
    },
    /// Nobody accepts connections there.
    #[error("no gateway answers at {0}")]
    Unreachable(String, #[source] Arc<io::Error>),
    /// The certificate of the gateway is not one of the trusted root.
    #[error("the root in {} did not issue the certificate of the gateway at {host_and_port}", root.display())]
    Untrusted {
        /// Where the gateway is.
        host_and_port: String,
        /// The file of the root that was trusted.
        root: PathBuf,
        /// What TLS said.
        source: Arc<io::Error>,
    },
    /// The gateway closed the connection and said why.
    #[error("the gateway closed the connection with {code}{}{reason}", if reason.is_empty() { "" } else { ": " })]
    Closed {
        /// The close code of the WebSocket.
        code: u16,
        /// The reason beside it; may be empty.
        reason: String,
    },
    /// The connection ended without a close code, or there is none at the moment.
    #[error("the connection is lost: {0}")]
    Disconnected(String),
    /// Events arrived faster than they were read, so the connection was closed. What was in the queue is gone; messages are
    /// pulled again.
    #[error("the connection was closed, because more events arrived than were read")]
    TooManyEvents,
    /// So many calls wait for the connection already that this one was refused at once.
    #[error("the connection is lost, and {0} calls wait for it already")]
    TooManyCalls(usize),
    /// No answer came in time. Whether the call took effect is unknown.
    #[error("{0} was not answered in time")]
    TimedOut(String),
    /// The other side does not speak the protocol.
    #[error("unexpected answer from the gateway: {0}")]
    Unexpected(String),
    /// Something the caller gave, or a file of an agent, is not what it should be.
    #[error("{0}")]
    Invalid(String),
    /// A file of an agent cannot be read or written.
    #[error("{} cannot be {attempt}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// `read`, `written` or `removed`.
        attempt: &'static str,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// The program closed this client itself.
    #[error("this client was closed")]
    ClientClosed,
}

impl Error {
    /// The refusal in an answer to `method`.
    pub(crate) fn refused(method: &str, error: Value) -> Error {
        Error::Refused {
            method: method.to_owned(),
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or("no reason is given").to_owned(),
            error,
        }
    }

    pub(crate) fn file(file: &Path, attempt: &'static str, source: io::Error) -> Error {
        Error::File { file: file.to_owned(), attempt, source: Arc::new(source) }
    }

    /// The code of a refusal.
    pub fn code(&self) -> Option<i64> {
        match self {
            Error::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the same can succeed a little later. Close codes are the protocol's: after these a client does not reconnect.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Refused { error, .. } => error["data"]["retryable"] == true,
            Error::HttpRefused { status, .. } => *status == 429 || *status >= 500,
            Error::Closed { code, .. } => {
                !matches!(code, 4001 | 4003 | 4008 | 4009 | 4010 | 4011 | 4013 | 4014 | 4015)
            }
            Error::Untrusted { .. } | Error::Invalid(_) | Error::File { .. } | Error::ClientClosed => false,
            Error::Unreachable(..)
            | Error::Disconnected(_)
            | Error::TooManyEvents
            | Error::TooManyCalls(_)
            | Error::TimedOut(_)
            | Error::Unexpected(_) => true,
        }
    }

    /// Whether the connection ended under a call, so that nobody knows whether the call took effect.
    pub fn is_disconnect(&self) -> bool {
        matches!(self, Error::Closed { .. } | Error::Disconnected(_) | Error::TooManyEvents)
    }
}

impl From<AidError> for Error {
    fn from(error: AidError) -> Error {
        Error::Invalid(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_client_that_was_replaced_or_refused_does_not_come_back() {
        let closed = |code| Error::Closed { code, reason: String::new() };
        for code in [4001, 4003, 4008, 4009, 4010, 4011, 4013, 4014, 4015] {
            assert!(!closed(code).is_transient(), "{code}");
        }
        for code in [1000, 1001, 1006, 1011, 1012, 1013, 4012] {
            assert!(closed(code).is_transient(), "{code}");
        }
        let refused = |retryable| Error::refused("a.b", json!({ "data": { "retryable": retryable } }));
        assert!(refused(true).is_transient() && !refused(false).is_transient());
    }
}
