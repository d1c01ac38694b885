//! What a runner hears from the manager.

use super::{ErrorVerdict, ManagerError};
use proto_schemas::requests::run::{CommandRecord, RunApproval};
use std::fmt;

/// News from the manager.
#[derive(Debug)]
pub(crate) enum WorkSignal {
    /// An answer of the poll.
    Polled { commands: Vec<CommandRecord>, news: RunNews },
    /// An answer of the heartbeat.
    Renewed { news: RunNews },
    /// This runner has taken a command.
    Acknowledged { command: Box<CommandRecord> },
    /// The end of a command was stored.
    Reported,
    /// A command has ended without us, or cannot be taken or ended by us.
    CommandOver { command_id: String },
    /// The manager does not take an event, however often it is sent.
    EventRefused { command_id: Option<String>, why: String },
    /// The answer to giving the lease back.
    Released { is_released: bool },
    /// The run has ended.
    RunEnded,
    /// This runner is not the one any more: nothing that it says is accepted.
    Over(WorkOver),
}

/// What every answer of the poll and of the heartbeat has.
#[derive(Debug, Default)]
pub(crate) struct RunNews {
    /// The commands that are to be cancelled.
    pub cancel: Vec<String>,
    /// Questions that were answered, and whose answer is not in the log yet.
    pub answers: Vec<RunApproval>,
}

/// Why a runner has to end without a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkOver {
    /// Another runner has the lease.
    LeaseLost,
    /// The manager does not accept this runner, or has not answered for hours.
    Denied(String),
}

impl fmt::Display for WorkOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkOver::LeaseLost => f.write_str("another runner has the lease of the run"),
            WorkOver::Denied(why) => f.write_str(why),
        }
    }
}

impl WorkSignal {
    /// What follows from an error that is about the run and not about one command.
    pub fn of_error(error: ManagerError) -> WorkSignal {
        match error.verdict() {
            ErrorVerdict::Ended => WorkSignal::RunEnded,
            ErrorVerdict::LeaseLost => WorkSignal::Over(WorkOver::LeaseLost),
            ErrorVerdict::Transient | ErrorVerdict::Denied | ErrorVerdict::Refused => {
                WorkSignal::Over(WorkOver::Denied(error.to_string()))
            }
        }
    }
}
