//! What can go wrong between an agent and its gateway.

use serde_json::Value;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered, and the answer is no. `error` is the whole object of the answer.
    #[error("{method} was refused: {message} ({code})")]
    Refused { method: String, code: i64, message: String, error: Value },
    #[error("no gateway answers at {0}")]
    Unreachable(String, #[source] io::Error),
    #[error("the root in {} does not vouch for the gateway at {place}", root.display())]
    Untrusted { place: String, root: PathBuf, source: io::Error },
    #[error("the gateway closed the connection with {code}{}{reason}", if reason.is_empty() { "" } else { ": " })]
    Closed { code: u16, reason: String },
    #[error("the connection is lost: {0}")]
    Lost(String),
    #[error("{0} was not answered in time")]
    Late(String),
    #[error("the gateway said something an agent cannot understand: {0}")]
    Odd(String),
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

    /// Whether the same can succeed a little later. Close codes are the protocol's: after these a client stays away.
    pub fn may_pass(&self) -> bool {
        match self {
            Error::Refused { error, .. } => error["data"]["retryable"] == true,
            Error::Closed { code, .. } => {
                !matches!(code, 4001 | 4003 | 4008 | 4009 | 4010 | 4011 | 4013 | 4015)
            }
            Error::Untrusted { .. } => false,
            Error::Unreachable(..) | Error::Lost(_) | Error::Late(_) | Error::Odd(_) => true,
        }
    }
}
