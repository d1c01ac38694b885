//! What a runner says of the end of a command or a run.

use crate::error::Error;
use crate::model::call::RunnerReport;
use crate::shown::redacted_text;
use proto_schemas::requests::runner::TERMINAL_FAILURE_KINDS;

/// What a runner reports, with its words redacted: they go into the log.
pub(crate) fn report(
    status: proto_schemas::requests::runner::ReportedStatus,
    kind: Option<String>,
    message: Option<String>,
) -> Result<RunnerReport, Error> {
    if let Some(kind) = &kind
        && !TERMINAL_FAILURE_KINDS.contains(&kind.as_str())
    {
        let known = TERMINAL_FAILURE_KINDS.join(", ");
        return Err(Error::Invalid(format!("failureKind must be one of {known}")));
    }
    if let Some(message) = &message
        && message.contains('\0')
    {
        return Err(Error::Invalid("failureMessage must not have control characters".to_owned()));
    }
    Ok(RunnerReport { status, failure_kind: kind, failure_message: message.as_deref().map(redacted_text) })
}
