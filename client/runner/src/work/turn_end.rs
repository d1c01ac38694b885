//! How the end of a turn is reported: what the back end says of it, and why it was told to end.

use crate::back_end::{TurnEnd, TurnStatus};
use proto_schemas::requests::runner::{ReportedStatus, TERMINAL_FAILURE_KINDS};

/// The longest message that the manager takes, in characters.
const LONGEST_MESSAGE: usize = 4000;

/// Why a turn was told to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    /// A client asked to cancel it.
    Cancelled,
    /// An `interrupt` command.
    Interrupted,
    /// The time of its policy is over.
    TimedOut,
    /// The manager refuses what it says.
    Refused(String),
    /// The runner was told to end.
    Stopped,
}

/// What is reported of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TurnReport {
    pub status: ReportedStatus,
    pub failure_kind: Option<String>,
    pub message: Option<String>,
}

impl TurnReport {
    pub fn of(status: ReportedStatus, failure_kind: &str, message: impl Into<String>) -> TurnReport {
        let message = message.into().chars().filter(|c| *c != '\0').take(LONGEST_MESSAGE).collect();
        TurnReport { status, failure_kind: Some(failure_kind.to_owned()), message: Some(message) }
    }

    pub fn failed(failure_kind: &str, message: impl Into<String>) -> TurnReport {
        TurnReport::of(ReportedStatus::Failed, failure_kind, message)
    }

    fn completed() -> TurnReport {
        TurnReport { status: ReportedStatus::Completed, failure_kind: None, message: None }
    }
}

/// Only a turn that the back end has completed, and that nobody asked to end, is completed; but an `interrupt` that came too late changes
/// nothing. The manager takes `cancelled` only where somebody asked to cancel, so an interrupted turn has `failed` of that kind.
pub(super) fn report_of(reason: Option<EndReason>, end: TurnEnd) -> TurnReport {
    let message = |or: &str| end.message.clone().unwrap_or_else(|| or.to_owned());
    match (reason, end.status) {
        (Some(EndReason::Cancelled), _) => {
            TurnReport::of(ReportedStatus::Cancelled, "cancelled", "the turn was cancelled")
        }
        (Some(EndReason::TimedOut), _) => {
            TurnReport::failed("backend-timeout", "the turn did not end within its time")
        }
        (Some(EndReason::Refused(why)), _) => TurnReport::failed("backend-failed", why),
        (Some(EndReason::Stopped), _) => TurnReport::failed("infra-failed", "the runner was stopped"),
        (None | Some(EndReason::Interrupted), TurnStatus::Completed) => TurnReport::completed(),
        (Some(EndReason::Interrupted), _) | (None, TurnStatus::Interrupted) => {
            TurnReport::failed("cancelled", "the turn was interrupted")
        }
        (None, TurnStatus::Failed) => {
            let kind = end.failure_kind.as_deref().filter(|kind| TERMINAL_FAILURE_KINDS.contains(kind));
            TurnReport::failed(kind.unwrap_or("backend-failed"), message("the back end has failed"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_turn_is_what_the_back_end_says_unless_it_was_told_to_end() {
        let interrupted = TurnEnd { status: TurnStatus::Interrupted, ..TurnEnd::completed() };
        let failed = || TurnEnd::failed("provider-unavailable", "no model");
        let unknown = || TurnEnd::failed("odd", "no model");
        for (reason, end, status, kind) in [
            (None, TurnEnd::completed(), ReportedStatus::Completed, None),
            (None, failed(), ReportedStatus::Failed, Some("provider-unavailable")),
            (None, unknown(), ReportedStatus::Failed, Some("backend-failed")),
            (None, interrupted.clone(), ReportedStatus::Failed, Some("cancelled")),
            (Some(EndReason::Cancelled), TurnEnd::completed(), ReportedStatus::Cancelled, Some("cancelled")),
            (Some(EndReason::Cancelled), failed(), ReportedStatus::Cancelled, Some("cancelled")),
            (Some(EndReason::Interrupted), TurnEnd::completed(), ReportedStatus::Completed, None),
            (Some(EndReason::Interrupted), interrupted.clone(), ReportedStatus::Failed, Some("cancelled")),
            (Some(EndReason::Interrupted), failed(), ReportedStatus::Failed, Some("cancelled")),
            (
                Some(EndReason::TimedOut),
                TurnEnd::completed(),
                ReportedStatus::Failed,
                Some("backend-timeout"),
            ),
            (Some(EndReason::Stopped), interrupted.clone(), ReportedStatus::Failed, Some("infra-failed")),
            (
                Some(EndReason::Refused("no".to_owned())),
                interrupted,
                ReportedStatus::Failed,
                Some("backend-failed"),
            ),
        ] {
            let report = report_of(reason.clone(), end.clone());
            assert_eq!((report.status, report.failure_kind.as_deref()), (status, kind), "{reason:?} {end:?}");
        }
    }

    #[test]
    fn a_message_is_as_long_as_the_manager_takes_it() {
        let report = TurnReport::failed("backend-failed", "ä\0".repeat(5000));
        assert_eq!(report.message.unwrap(), "ä".repeat(LONGEST_MESSAGE));
    }
}
