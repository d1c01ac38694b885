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
    /// What the other gateway answered, if it refused our hello.
    pub remote: Option<Value>,
}

/// The reasons that last until somebody does something about them, here or there. All others may be gone in a moment.
const LASTING: [&str; 7] = [
    "domain_unknown",
    UNTRUSTED,
    "issuer_blocked",
    HELLO_REFUSED,
    "hello_invalid",
    "certificate_revoked",
    "certificate_unknown",
];
const UNTRUSTED: &str = "domain_untrusted";
const HELLO_REFUSED: &str = "hello_refused";

impl LinkFailure {
    pub fn new(phase: DialPhase, reason: &'static str, sentence: impl Into<String>) -> LinkFailure {
        LinkFailure { phase, reason, sentence: sentence.into(), remote: None }
    }

    /// No root is trusted for the domain.
    pub fn untrusted(issuer: &str) -> LinkFailure {
        let add = format!("add its root with \"aund certs trust add … --domain {issuer}\"");
        LinkFailure::new(DialPhase::Discover, UNTRUSTED, format!("{issuer} is not trusted: {add}"))
    }

    /// The other gateway refused our hello. Only it knows whether the same hello may succeed later.
    pub fn hello_refused(ours: &str, theirs: &RpcError) -> LinkFailure {
        let remote = json!({ "code": theirs.code(), "message": theirs.to_string() });
        let (reason, to_do) = match theirs.data("retryable") == Some(&json!(true)) {
            true => ("hello_postponed", String::new()),
            false => (HELLO_REFUSED, format!("; its operator has to accept {ours}")),
        };
        let sentence = format!("its gateway refused our hello: {theirs}{to_do}");
        LinkFailure { remote: Some(remote), ..LinkFailure::new(DialPhase::Hello, reason, sentence) }
    }

    /// Whether it lasts until somebody does something about it.
    pub fn is_lasting(&self) -> bool {
        LASTING.contains(&self.reason)
    }

    /// The whole sentence about a domain.
    pub fn about(&self, issuer: &str) -> String {
        match self.reason {
            UNTRUSTED => self.sentence.clone(),
            _ => format!("{issuer} cannot be reached: {}", self.sentence),
        }
    }

    /// The error of a call that was never sent. "-32010 when the connection cannot be made, -32012 on runtime refusal".
    pub fn error(&self, issuer: &str, retry_after: Option<Duration>) -> RpcError {
        let code = match self.reason {
            HELLO_REFUSED => codes::FEDERATION_REFUSED,
            _ => codes::FEDERATION_UNREACHABLE,
        };
        let mut error = RpcError::new(code, self.about(issuer))
            .with("reason", self.reason)
            .with("phase", self.phase.as_str())
            .with("target_issuer", issuer)
            .with("retryable", !self.is_lasting());
        if let Some(remote) = &self.remote {
            error = error.with("remote", remote.clone()).with("effect", "none");
        }
        match retry_after.filter(|_| !self.is_lasting()) {
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
    fn only_what_may_be_gone_in_a_moment_is_retryable() {
        let failure = |reason| LinkFailure::new(DialPhase::Connect, reason, "x");
        let hello = |code| LinkFailure::hello_refused("north.test", &RpcError::new(code, "no"));
        for (failure, code, retryable) in [
            (failure("connect_failed"), -32010, true),
            (failure("domain_unknown"), -32010, false),
            (failure("certificate_revoked"), -32010, false),
            (LinkFailure::untrusted("south.test"), -32010, false),
            (hello(codes::CERT_OR_NONCE_INVALID), -32012, false),
            (hello(codes::UNAVAILABLE), -32010, true),
        ] {
            let error = failure.error("south.test", Some(Duration::from_secs(1)));
            let told = (error.code(), error.data("retryable"), error.data("retry_after_ms").is_some());
            assert_eq!(told, (code, Some(&json!(retryable)), retryable), "{error}");
        }
        assert_eq!(
            LinkFailure::untrusted("south.test").error("south.test", None).to_string(),
            r#"south.test is not trusted: add its root with "aund certs trust add … --domain south.test""#
        );
    }

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
