//! The errors of calls that did not cross to another domain: −32010, −32011 and −32012, each with the facts a program can
//! use.

use kernel::{RpcError, codes};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::fmt::Display;
use std::time::Duration;

/// How much of a text from another domain is quoted in a sentence.
const QUOTED_CHARS: usize = 80;

/// How far the dial of a peer went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialPhase {
    Discover,
    Connect,
    Hello,
}

impl DialPhase {
    pub fn as_str(self) -> &'static str {
        match self {
            DialPhase::Discover => "discover",
            DialPhase::Connect => "connect",
            DialPhase::Hello => "hello",
        }
    }
}

/// Why there is no link to a peer.
#[derive(Clone, Debug)]
pub struct LinkFailure {
    pub phase: DialPhase,
    pub reason: &'static str,
    pub sentence: String,
}

impl LinkFailure {
    pub fn new(phase: DialPhase, reason: &'static str, sentence: impl Into<String>) -> LinkFailure {
        LinkFailure { phase, reason, sentence: sentence.into() }
    }

    /// The error of a call that was never sent.
    pub fn error(&self, issuer: &str, retry_after: Option<Duration>) -> RpcError {
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

/// A call that may not cross, and why.
pub fn refused(reason: &str, sentence: impl Display) -> RpcError {
    RpcError::new(codes::FEDERATION_REFUSED, sentence).with("reason", reason)
}

/// No answer came before the deadline. A call that was never sent had no effect.
pub fn timed_out(issuer: &str, relay_id: &str, sent: bool) -> RpcError {
    unanswered(issuer, relay_id, sent, "relay_timeout", &format!("{issuer} did not answer in time"))
}

/// The link broke while a call was in flight that must not be sent twice.
pub fn link_lost(issuer: &str, relay_id: &str) -> RpcError {
    let sentence = format!("the link to {issuer} was lost before it answered");
    unanswered(issuer, relay_id, true, "link_lost", &sentence)
}

fn unanswered(issuer: &str, relay_id: &str, sent: bool, reason: &str, sentence: &str) -> RpcError {
    RpcError::new(codes::FEDERATION_TIMEOUT, sentence)
        .with("reason", reason)
        .with("effect", if sent { "unknown" } else { "none" })
        .with("relay_id", relay_id)
        .with("target_issuer", issuer)
}

/// The other gateway refused the call. Its own code and message stay visible beside ours.
pub fn refused_by_peer(issuer: &str, theirs: &RpcError) -> RpcError {
    let reason = theirs.data("reason").and_then(Value::as_str).unwrap_or("refused");
    let error = refused(reason, format!("the gateway of {issuer} refused: {theirs}"))
        .with("remote", json!({ "code": theirs.code(), "message": theirs.to_string() }))
        .with("federated", true)
        .with("target_issuer", issuer);
    // Only the other domain knows whether and when to try again.
    ["retryable", "retry_after_ms"].into_iter().fold(error, |error, key| match theirs.data(key) {
        Some(value) => error.with(key, value.clone()),
        None => error,
    })
}

/// An error as another gateway writes it: `data` may be anything, and is used only if it is an object.
pub fn read_error(text: &RawValue) -> Option<RpcError> {
    serde_json::from_str(text.get()).ok().or_else(|| {
        let mut error: Value = serde_json::from_str(text.get()).ok()?;
        error.as_object_mut()?.remove("data");
        serde_json::from_value(error).ok()
    })
}

/// The beginning of a text that another domain sent, for a sentence.
pub fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_the_other_gateway_is_kept() {
        let theirs = r#"{"code":-32029,"message":"too fast","data":{"reason":"rate","retryable":true,"retry_after_ms":7}}"#;
        let error = refused_by_peer("other.example", &serde_json::from_str(theirs).unwrap());
        assert_eq!(error.code(), -32012);
        assert_eq!(error.data("reason"), Some(&json!("rate")));
        assert_eq!(error.data("retryable"), Some(&json!(true)));
        assert_eq!(error.data("retry_after_ms"), Some(&json!(7)));
        assert_eq!(error.data("remote"), Some(&json!({ "code": -32029, "message": "too fast" })));
    }

    #[test]
    fn an_error_with_data_of_another_type_is_still_an_error() {
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
