//! What a service is told when a call did not cross: −32010, −32011 and −32012, each with the facts a program can use.

use super::refused;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use services::kernel::{RpcError, codes};
use std::time::Duration;

/// How far the way to another domain went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Discover,
    Connect,
    Hello,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Discover => "discover",
            Phase::Connect => "connect",
            Phase::Hello => "hello",
        }
    }
}

/// Why there is no link.
#[derive(Clone, Debug)]
pub struct Failure {
    pub phase: Phase,
    pub reason: &'static str,
    pub sentence: String,
}

impl Failure {
    pub fn new(phase: Phase, reason: &'static str, sentence: impl Into<String>) -> Failure {
        Failure { phase, reason, sentence: sentence.into() }
    }

    /// What somebody is told whose call never left.
    pub fn told(&self, issuer: &str, retry_after: Option<Duration>) -> RpcError {
        let sentence = format!("{issuer} cannot be reached: {}", self.sentence);
        let error = RpcError::new(codes::FEDERATION_UNREACHABLE, sentence)
            .with("reason", self.reason)
            .with("phase", self.phase.as_str())
            .with("target_issuer", issuer);
        match retry_after {
            Some(wait) => {
                error.with("retry_after_ms", u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1))
            }
            None => error,
        }
    }
}

/// Nobody answered in time. What was never sent had no effect either.
pub fn late(issuer: &str, relay_id: &str, sent: bool) -> RpcError {
    unanswered(issuer, relay_id, sent, "relay_timeout", "did not answer in time")
}

/// The link broke under a call that must not be sent twice.
pub fn lost(issuer: &str, relay_id: &str) -> RpcError {
    unanswered(issuer, relay_id, true, "link_lost", "was lost before it answered")
}

fn unanswered(issuer: &str, relay_id: &str, sent: bool, reason: &str, what: &str) -> RpcError {
    RpcError::new(codes::FEDERATION_TIMEOUT, format!("{issuer} {what}"))
        .with("reason", reason)
        .with("effect", if sent { "unknown" } else { "none" })
        .with("relay_id", relay_id)
        .with("target_issuer", issuer)
}

/// The other gateway would not take the call. What it said stays visible beside our own code.
pub fn refused_there(issuer: &str, said: &RpcError) -> RpcError {
    let reason = said.data("reason").and_then(Value::as_str).unwrap_or("refused");
    let error = refused(reason, format!("the gateway of {issuer} refused: {said}"))
        .with("remote", json!({ "code": said.code(), "message": said.to_string() }))
        .with("federated", true)
        .with("target_issuer", issuer);
    // Whether and when to come again is theirs to say.
    ["retryable", "retry_after_ms"].into_iter().fold(error, |error, key| match said.data(key) {
        Some(value) => error.with(key, value.clone()),
        None => error,
    })
}

/// An error as others write it: its data may be anything, and only an object of it is of use.
pub fn read_error(text: &RawValue) -> Option<RpcError> {
    serde_json::from_str(text.get()).ok().or_else(|| {
        let mut error: Value = serde_json::from_str(text.get()).ok()?;
        error.as_object_mut()?.remove("data");
        serde_json::from_value(error).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_other_gateway_said_is_kept() {
        let said = r#"{"code":-32029,"message":"too fast","data":{"reason":"rate","retryable":true,"retry_after_ms":7}}"#;
        let error = refused_there("other.example", &serde_json::from_str(said).unwrap());
        assert_eq!(error.code(), -32012);
        assert_eq!(error.data("reason"), Some(&json!("rate")));
        assert_eq!(error.data("retryable"), Some(&json!(true)));
        assert_eq!(error.data("retry_after_ms"), Some(&json!(7)));
        assert_eq!(error.data("remote"), Some(&json!({ "code": -32029, "message": "too fast" })));
    }

    #[test]
    fn an_error_with_odd_data_is_still_an_error() {
        for (text, code) in [
            (r#"{"code":-1,"message":"m","data":null}"#, Some(-1)),
            (r#"{"code":-1,"message":"m","data":"text"}"#, Some(-1)),
            (r#"{"code":-1,"message":"m","data":{"a":1}}"#, Some(-1)),
            (r#"{"code":"x","message":"m"}"#, None),
            (r#"{"message":"m"}"#, None),
            ("7", None),
        ] {
            let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
            assert_eq!(read_error(&raw).map(|error| error.code()), code, "{text}");
        }
    }
}
