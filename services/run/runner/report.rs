//! What a runner says of the end of a command or a run.

use crate::error::Error;
use crate::model::call::RunnerReport;
use crate::shown::redacted_text;

/// The kinds of failures with which a command or a run may end.
pub(super) const TERMINAL_KINDS: [&str; 11] = [
    "schema-invalid",
    "tenant-policy-denied",
    "secret-unavailable",
    "backend-failed",
    "backend-timeout",
    "provider-auth-failed",
    "provider-unavailable",
    "infra-failed",
    "cancelled",
    "session-store-evicted",
    "thread-resume-failed",
];

/// What a runner reports, with its words redacted: they go into the log.
pub(crate) fn report(
    status: proto_schemas::requests::runner::ReportedStatus,
    kind: Option<String>,
    message: Option<String>,
) -> Result<RunnerReport, Error> {
    if let Some(kind) = &kind
        && !TERMINAL_KINDS.contains(&kind.as_str())
    {
        let known = TERMINAL_KINDS.join(", ");
        return Err(Error::Invalid(format!("failureKind must be one of {known}")));
    }
    if let Some(message) = &message
        && message.contains('\0')
    {
        return Err(Error::Invalid("failureMessage must not have control characters".to_owned()));
    }
    Ok(RunnerReport { status, failure_kind: kind, failure_message: message.as_deref().map(redacted_text) })
}
