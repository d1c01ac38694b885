//! What can go wrong in `run.*`, `runner.*`, `session.*` and `profile.*`: a kind of failure for programs, a status, and a sentence.

use crate::redact::{PayloadRefused, redact_text};
use ag_ui::InputRefused;
use kernel::{ChargeError, PageLimitError, RpcError, codes};
use proto_schemas::Code;
use proto_schemas::requests::run::TerminalStatus;
use serde_json::json;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The request is well-formed JSON, and means nothing.
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Denied(String),
    #[error("{0} not found")]
    NotFound(String),
    #[error("{0}")]
    Forbidden(String),
    #[error("{0}")]
    SecretUnavailable(String),
    /// A transition that the state does not allow.
    #[error("{0}")]
    Illegal(String),
    #[error("run {id} is already terminal: {}", word(*.status))]
    RunEnded { id: String, status: TerminalStatus, failure_kind: Option<String> },
    #[error("command {id} is already terminal: {}", word(*.status))]
    CommandEnded { id: String, status: TerminalStatus, failure_kind: Option<String> },
    #[error("the lease of the run belongs to another runner")]
    Lease(Box<LeaseConflict>),
    #[error("this key was used for another request")]
    Idempotency { member: &'static str, existing: String },
    #[error("session {session} has an open run")]
    SessionBusy { session: String, active_run: String },
    #[error("a runner job of this command is still active")]
    JobActive { runner_job: String },
    #[error("the storage of session {0} was evicted")]
    StoreEvicted(String),
    #[error("session storage is over its quota")]
    StorageFull,
    #[error("{0}")]
    TooLarge(String),
    /// The input of a front end breaks a rule.
    #[error("{0}")]
    RunInput(String),
    /// The same with what is wrong, and where.
    #[error("{}", .0.detail)]
    RunInputForm(InputRefused),
    #[error("runId already used")]
    RunIdUsed,
    #[error("forbidden")]
    NotOwner,
    #[error("{sentence}")]
    Limit { sentence: String, scope: &'static str, limit: i64, held: i64 },
    #[error(transparent)]
    Other(#[from] RpcError),
    #[error(transparent)]
    Store(#[from] sqlx::Error),
}

impl Error {
    /// What a runner is told of everything that is not of its run, whether it exists or not.
    pub fn of_another_run() -> Error {
        Error::Forbidden("the token belongs to a runner of another run".to_owned())
    }
}

/// Who has the lease, and how long to wait.
#[derive(Debug, Default)]
pub(crate) struct LeaseConflict {
    pub owner: Option<String>,
    pub attempt: Option<String>,
    pub expires_at: Option<String>,
    pub retry_after_ms: i64,
}

fn word(status: TerminalStatus) -> &'static str {
    match status {
        TerminalStatus::Completed => "completed",
        TerminalStatus::Failed => "failed",
        TerminalStatus::Blocked => "blocked",
        TerminalStatus::Cancelled => "cancelled",
    }
}

impl From<ChargeError> for Error {
    fn from(error: ChargeError) -> Error {
        Error::Other(error.into())
    }
}

impl From<PageLimitError> for Error {
    fn from(_: PageLimitError) -> Error {
        Error::Invalid(PageLimitError::SENTENCE.to_owned())
    }
}

impl From<PayloadRefused> for Error {
    fn from(refused: PayloadRefused) -> Error {
        match refused {
            PayloadRefused::Invalid(sentence) => Error::Invalid(sentence),
            PayloadRefused::TooLarge(_) => Error::TooLarge(refused.to_string()),
        }
    }
}

/// Whether there will be less of it without the caller: commands and runs end, and questions are answered or end with their command. A log
/// never empties, the runners of a run are not forgotten before the run, and a subscriber or a reader stays until it leaves.
fn empties_itself(scope: &str) -> bool {
    ["run.commands", "tenant.runs", "run.approvals", "server.runners", "agui.waiting"].contains(&scope)
}

/// An error with the word that AgentRun has for it.
fn failure(code: Code, kind: &str, error: &Error) -> RpcError {
    // What was sent is named in sentences, and it may be a secret.
    RpcError::new(code, redact_text(&error.to_string())).with("failureKind", kind)
}

fn conflict(kind: &str, error: &Error) -> RpcError {
    failure(codes::VERSION_CONFLICT, kind, error)
}

impl From<Error> for RpcError {
    fn from(error: Error) -> RpcError {
        match error {
            Error::Invalid(_) => failure(codes::INVALID_PARAMS, "schema-invalid", &error),
            Error::Denied(_) => failure(codes::PERMISSION_DENIED, "tenant-policy-denied", &error),
            Error::NotFound(_) => failure(codes::NOT_FOUND, "not-found", &error),
            Error::Forbidden(_) => failure(codes::PERMISSION_DENIED, "forbidden", &error),
            Error::SecretUnavailable(_) => conflict("secret-unavailable", &error),
            Error::Illegal(_) => conflict("schema-invalid", &error),
            Error::RunEnded { status, ref failure_kind, .. }
            | Error::CommandEnded { status, ref failure_kind, .. } => {
                let kind = failure_kind.as_deref().unwrap_or(match status {
                    TerminalStatus::Cancelled => "cancelled",
                    TerminalStatus::Completed | TerminalStatus::Failed | TerminalStatus::Blocked => {
                        "schema-invalid"
                    }
                });
                conflict(kind, &error).with("status", word(status))
            }
            Error::Lease(ref lease) => conflict("runner-lease-conflict", &error)
                .with("retryable", true)
                .with("ownerRunnerId", json!(lease.owner))
                .with("ownerAttemptId", json!(lease.attempt))
                .with("leaseExpiresAt", json!(lease.expires_at))
                .with("retryAfterMs", lease.retry_after_ms),
            Error::Idempotency { member, ref existing } => {
                conflict("idempotency-conflict", &error).with(member, existing.as_str())
            }
            Error::SessionBusy { ref active_run, .. } => {
                conflict("session-busy", &error).with("activeRunId", active_run.as_str())
            }
            Error::JobActive { ref runner_job } => {
                conflict("job-already-active", &error).with("runnerJobId", runner_job.as_str())
            }
            Error::StoreEvicted(_) => conflict("session-store-evicted", &error),
            Error::StorageFull => conflict("infra-failed", &error).with("retryable", true),
            Error::RunInput(_) => failure(codes::agui::RUN_INPUT_INVALID, "schema-invalid", &error),
            Error::RunInputForm(ref refused) => {
                let failure = failure(codes::agui::RUN_INPUT_INVALID, "schema-invalid", &error);
                match refused.errors.is_empty() {
                    true => failure,
                    false => failure.with("errors", json!(refused.errors)),
                }
            }
            Error::RunIdUsed => failure(codes::agui::RUN_ID_USED, "idempotency-conflict", &error),
            Error::NotOwner => failure(codes::PERMISSION_DENIED, "forbidden", &error),
            Error::TooLarge(_) => failure(codes::BODY_TOO_LARGE, "payload-too-large", &error),
            Error::Limit { scope, limit, held, .. } => failure(codes::RATE_LIMITED, "rate-limited", &error)
                .with("retryable", empties_itself(scope))
                .with("scope", scope)
                .with("limit", limit)
                .with("held", held),
            Error::Other(error) => error,
            Error::Store(source) => source.into(),
        }
    }
}
