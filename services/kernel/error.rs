//! `RpcError`: what a caller is answered when something does not work, and the cause that only the log gets.

use proto_schemas::{Code, ParamViolation, codes};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt::Display;

/// Somebody has to make space, or the server has to remove what is too old: neither takes only a moment.
const NO_SPACE_RETRY_MS: u64 = 60_000;

/// A code, a sentence, and facts a program can use. The cause is logged and never sent.
///
/// It is written and read as the `error` member of a response.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct RpcError {
    code: i32,
    message: String,
    #[serde(default)]
    data: Map<String, Value>,
    #[serde(skip)]
    cause: Option<anyhow::Error>,
}

impl RpcError {
    pub fn new(code: Code, sentence: impl Display) -> RpcError {
        let mut data = Map::new();
        data.insert("kind".into(), code.name.to_ascii_lowercase().into());
        data.insert("retryable".into(), code.retryable.into());
        RpcError { code: code.code, message: sentence.to_string(), data, cause: None }
    }

    /// The sentence of the table of errors, where nothing more is known.
    pub fn plain(code: Code) -> RpcError {
        RpcError::new(code, code.message)
    }

    /// Our failure: the agent learns only that it happened.
    pub fn internal(cause: impl Into<anyhow::Error>) -> RpcError {
        RpcError::plain(codes::INTERNAL).caused_by(cause)
    }

    /// The store failed. Nothing was acknowledged, so the caller may simply try again.
    pub fn store(cause: impl Into<anyhow::Error>) -> RpcError {
        RpcError::unavailable("the store is not available; nothing was changed", cause)
    }

    /// New bytes are refused because there is no space for them. Where they would be is not said.
    pub fn no_space() -> RpcError {
        let sentence = "the server has too little free space right now, nothing was changed";
        RpcError::new(codes::UNAVAILABLE, sentence)
            .with("reason", "no_space")
            .with("retry_after_ms", NO_SPACE_RETRY_MS)
    }

    /// Something of ours cannot be used right now; the sentence names it.
    pub fn unavailable(sentence: impl Display, cause: impl Into<anyhow::Error>) -> RpcError {
        RpcError::new(codes::UNAVAILABLE, sentence).caused_by(cause)
    }

    /// A member of the parameters, named by its path (`artifacts[0].ref`), has a value that its method does not accept.
    pub fn invalid_member(path: &str, sentence: impl Display) -> RpcError {
        let message = format!("{path}: {sentence}");
        let pointer = format!("/{}", path.replace(['.', '['], "/").replace(']', ""));
        let violation = ParamViolation { path: pointer, rule: "value", message };
        RpcError::new(codes::INVALID_PARAMS, &violation.message).with("violations", json!([violation]))
    }

    /// The cause for the log.
    #[must_use]
    pub fn caused_by(self, cause: impl Into<anyhow::Error>) -> RpcError {
        RpcError { cause: Some(cause.into()), ..self }
    }

    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> RpcError {
        self.data.insert(key.into(), value.into());
        self
    }

    #[must_use]
    pub fn without(mut self, key: &str) -> RpcError {
        self.data.remove(key);
        self
    }

    pub fn code(&self) -> i32 {
        self.code
    }

    pub fn data(&self, key: &str) -> Option<&Value> {
        self.data.get(key)
    }

    /// What kind of error it is: `rate_limited`.
    pub fn kind(&self) -> &str {
        self.data("kind").and_then(Value::as_str).unwrap_or("internal")
    }

    /// All facts beside the sentence.
    pub fn all_data(&self) -> &Map<String, Value> {
        &self.data
    }

    /// How long to wait before the same call is tried again, where it was refused for coming too soon.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        Some(self.data("retry_after_ms")?.as_u64()?.div_ceil(1000))
    }

    /// Writes the hidden cause to the log, where the error is answered.
    pub fn log(&self, method: &str) {
        if let Some(cause) = &self.cause {
            tracing::error!(rpc.method = method, code = self.code, "{method} failed: {cause:#}");
        }
    }

    /// The same for a service: the error is passed on without its cause, so that it is logged once.
    #[must_use]
    pub fn logged(self, method: &str) -> RpcError {
        self.log(method);
        RpcError { cause: None, ..self }
    }
}
