//! What a failure of Codex means.

use serde_json::Value;

/// An `error` of Codex, in the words of the manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CodexFailure {
    pub kind: &'static str,
    pub message: String,
    /// The provider has not answered at all.
    pub is_unreachable: bool,
}

/// `codexErrorInfo` is a word, or an object of one word with the status of the provider if it has answered.
pub(super) fn failure_of(error: &Value) -> CodexFailure {
    let info = &error["codexErrorInfo"];
    let word = info.as_str().or_else(|| info.as_object()?.keys().next().map(String::as_str));
    let word = word.unwrap_or_default();
    let status = info[word]["httpStatusCode"].as_u64();
    let message = match error["message"].as_str() {
        Some(message) if !message.is_empty() => message,
        _ => "codex failed without a reason",
    };
    CodexFailure {
        kind: kind(word, status, message),
        message: message.to_owned(),
        is_unreachable: info.is_object() && status.is_none() && is_of_connection(word),
    }
}

fn kind(word: &str, status: Option<u64>, message: &str) -> &'static str {
    match (status, word) {
        (Some(401 | 403), _) | (None, "unauthorized") => "provider-auth-failed",
        (Some(429 | 500..), _) => "provider-unavailable",
        (Some(_), _) => "backend-failed",
        (
            None,
            "internalServerError"
            | "serverOverloaded"
            | "rateLimitExceeded"
            | "usageLimitExceeded"
            | "flexUnavailable"
            | "policyCapacityUnavailable"
            | "responseTooManyFailedAttempts",
        ) => "provider-unavailable",
        (None, word) if is_of_connection(word) => "provider-unavailable",
        // Codex says both with the word `other`.
        _ if message.starts_with("Missing environment variable") => "secret-unavailable",
        _ if message.starts_with("stream disconnected before completion") => "provider-unavailable",
        _ => "backend-failed",
    }
}

fn is_of_connection(word: &str) -> bool {
    matches!(word, "httpConnectionFailed" | "responseStreamConnectionFailed" | "responseStreamDisconnected")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_failure_has_its_kind() {
        let http = |word: &str, status: Value| json!({ word: { "httpStatusCode": status } });
        let other = || json!("other");
        for (info, message, kind) in [
            (http("httpConnectionFailed", json!(401)), "m", "provider-auth-failed"),
            (http("httpConnectionFailed", json!(403)), "m", "provider-auth-failed"),
            (json!("unauthorized"), "m", "provider-auth-failed"),
            (http("responseTooManyFailedAttempts", json!(429)), "m", "provider-unavailable"),
            (http("httpConnectionFailed", json!(503)), "m", "provider-unavailable"),
            (http("httpConnectionFailed", json!(404)), "m", "backend-failed"),
            (http("responseStreamDisconnected", Value::Null), "m", "provider-unavailable"),
            (json!("internalServerError"), "m", "provider-unavailable"),
            (json!("serverOverloaded"), "m", "provider-unavailable"),
            (json!("rateLimitExceeded"), "m", "provider-unavailable"),
            (json!("usageLimitExceeded"), "m", "provider-unavailable"),
            (json!("contextWindowExceeded"), "m", "backend-failed"),
            (http("activeTurnNotSteerable", Value::Null), "m", "backend-failed"),
            (other(), "Missing environment variable: `X`.", "secret-unavailable"),
            (other(), "stream disconnected before completion: x", "provider-unavailable"),
            (other(), "m", "backend-failed"),
            (Value::Null, "m", "backend-failed"),
        ] {
            let failure = failure_of(&json!({ "message": message, "codexErrorInfo": info }));
            assert_eq!((failure.kind, failure.message.as_str()), (kind, message), "{info}");
        }
        assert_eq!(failure_of(&Value::Null).message, "codex failed without a reason");
    }

    #[test]
    fn a_provider_that_has_answered_is_reachable() {
        let failing = |status: Value| {
            let info = json!({ "responseStreamDisconnected": { "httpStatusCode": status } });
            failure_of(&json!({ "message": "m", "codexErrorInfo": info })).is_unreachable
        };
        assert!(failing(Value::Null));
        assert!(!failing(json!(500)));
        assert!(!failure_of(&json!({ "message": "m", "codexErrorInfo": "other" })).is_unreachable);
    }
}
