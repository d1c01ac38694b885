//! What can go wrong between an agent and its gateway.

use serde_json::Value;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered with an error. `error` is the whole object of the answer.
    #[error("{method} was refused: {message} ({code})")]
    Refused { method: String, code: i64, message: String, error: Value },
    #[error("no gateway answers at {0}")]
    Unreachable(String, #[source] io::Error),
    #[error("the root in {} did not issue the certificate of the gateway at {host_and_port}", root.display())]
    Untrusted { host_and_port: String, root: PathBuf, source: io::Error },
    #[error("the gateway closed the connection with {code}{}{reason}", if reason.is_empty() { "" } else { ": " })]
    Closed { code: u16, reason: String },
    #[error("the connection is lost: {0}")]
    Disconnected(String),
    #[error("{0} was not answered in time")]
    TimedOut(String),
    #[error("the gateway's answer was not expected: {0}")]
    Unexpected(String),
}

impl Error {
    /// The refusal in an answer to `method`.
    pub(super) fn refused(method: &str, error: &Value) -> Error {
        Error::Refused {
            method: method.to_owned(),
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or("no reason is given").to_owned(),
            error: error.clone(),
        }
    }

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
            Error::Closed { code, .. } => {
                !matches!(code, 4001 | 4003 | 4008 | 4009 | 4010 | 4011 | 4013 | 4015)
            }
            Error::Untrusted { .. } => false,
            Error::Unreachable(..) | Error::Disconnected(_) | Error::TimedOut(_) | Error::Unexpected(_) => {
                true
            }
        }
    }
}
