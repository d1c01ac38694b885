//! Why a call of the manager did not succeed, and what a runner does about it.

use hyper::StatusCode;
use proto_schemas::requests::run::TerminalStatus;
use serde::Deserialize;
use std::time::Duration;

/// A call without a success.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ManagerError {
    /// Nobody answered, or what came was no answer. Whether the call took effect is unknown.
    #[error("the manager does not answer: {0}")]
    Unanswered(String),
    #[error("the answer of the manager has more than {most} bytes")]
    TooLarge { most: usize },
    #[error("{message} ({kind})")]
    Refused { status: StatusCode, kind: String, message: String, details: RefusalDetails },
}

/// What a refusal says for programs, as far as runners read it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RefusalDetails {
    retryable: Option<bool>,
    retry_after_ms: Option<u64>,
    /// How the run or the command has ended that the call is about.
    status: Option<TerminalStatus>,
}

/// The body of a refusal.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RefusalBody {
    failure_kind: String,
    message: String,
    #[serde(default)]
    details: RefusalDetails,
}

/// What follows from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorVerdict {
    /// The same call may succeed later.
    Transient,
    /// Another runner has the lease, or nobody has.
    LeaseLost,
    /// The run or the command has ended.
    Ended,
    /// The token is not valid (any more), or there is no such run: nothing that this runner says will be accepted.
    Denied,
    /// This call is refused, and so it will be if it comes again; others may succeed.
    Refused,
}

impl ManagerError {
    /// The refusal in an answer, or why there is none.
    pub(super) fn of_answer(status: StatusCode, body: &[u8]) -> ManagerError {
        match serde_json::from_slice::<RefusalBody>(body) {
            Ok(RefusalBody { failure_kind, message, details }) => {
                ManagerError::Refused { status, kind: failure_kind, message, details }
            }
            // A proxy that speaks for a manager that is not there answers in its own words.
            Err(_) if status.is_server_error() => ManagerError::Unanswered(format!("{status}")),
            Err(_) => ManagerError::Refused {
                status,
                kind: "unknown".to_owned(),
                message: format!("the manager answered with {status}, and not in its own form"),
                details: RefusalDetails::default(),
            },
        }
    }

    pub(crate) fn verdict(&self) -> ErrorVerdict {
        let (status, kind, details) = match self {
            ManagerError::Unanswered(_) => return ErrorVerdict::Transient,
            // It would be as large the next time.
            ManagerError::TooLarge { .. } => return ErrorVerdict::Refused,
            ManagerError::Refused { status, kind, details, .. } => (status, kind, details),
        };
        match (status.as_u16(), kind.as_str()) {
            (_, "runner-lease-conflict") => ErrorVerdict::LeaseLost,
            (409, _) if details.status.is_some() => ErrorVerdict::Ended,
            (401 | 403 | 404, _) => ErrorVerdict::Denied,
            _ if details.retryable == Some(true) => ErrorVerdict::Transient,
            (408 | 502..=504, _) => ErrorVerdict::Transient,
            // Without a word about it: too many at once, which passes.
            (429, _) if details.retryable.is_none() => ErrorVerdict::Transient,
            (500, _) => ErrorVerdict::Transient,
            _ => ErrorVerdict::Refused,
        }
    }

    /// How long the lease of another runner lasts at least.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let ManagerError::Refused { details, .. } = self else { return None };
        details.retry_after_ms.map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        for (status, body, verdict) in [
            (
                409,
                r#"{"failureKind":"runner-lease-conflict","message":"m","details":{"retryable":true,"retryAfterMs":7}}"#,
                ErrorVerdict::LeaseLost,
            ),
            (
                409,
                r#"{"failureKind":"cancelled","message":"m","details":{"status":"cancelled"}}"#,
                ErrorVerdict::Ended,
            ),
            (409, r#"{"failureKind":"schema-invalid","message":"m"}"#, ErrorVerdict::Refused),
            (400, r#"{"failureKind":"schema-invalid","message":"m"}"#, ErrorVerdict::Refused),
            (413, r#"{"failureKind":"payload-too-large","message":"m"}"#, ErrorVerdict::Refused),
            (401, r#"{"failureKind":"unauthorized","message":"m"}"#, ErrorVerdict::Denied),
            (403, r#"{"failureKind":"forbidden","message":"m"}"#, ErrorVerdict::Denied),
            (404, r#"{"failureKind":"not-found","message":"m"}"#, ErrorVerdict::Denied),
            (429, r#"{"failureKind":"rate-limited","message":"m"}"#, ErrorVerdict::Transient),
            (
                429,
                r#"{"failureKind":"rate-limited","message":"m","details":{"retryable":true}}"#,
                ErrorVerdict::Transient,
            ),
            (
                429,
                r#"{"failureKind":"rate-limited","message":"m","details":{"retryable":false}}"#,
                ErrorVerdict::Refused,
            ),
            (
                503,
                r#"{"failureKind":"infra-failed","message":"m","details":{"retryable":true}}"#,
                ErrorVerdict::Transient,
            ),
            (504, r#"{"failureKind":"infra-failed","message":"m"}"#, ErrorVerdict::Transient),
            (502, "<html>", ErrorVerdict::Transient),
            (302, "<html>", ErrorVerdict::Refused),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(
                ManagerError::of_answer(status, body.as_bytes()).verdict(),
                verdict,
                "{status} {body}"
            );
        }
        let conflict =
            br#"{"failureKind":"runner-lease-conflict","message":"m","details":{"retryAfterMs":7}}"#;
        let conflict = ManagerError::of_answer(StatusCode::CONFLICT, conflict);
        assert_eq!(conflict.retry_after(), Some(Duration::from_millis(7)));
        assert_eq!(ManagerError::Unanswered("late".to_owned()).verdict(), ErrorVerdict::Transient);
        assert_eq!(ManagerError::TooLarge { most: 1 }.verdict(), ErrorVerdict::Refused);
    }
}
