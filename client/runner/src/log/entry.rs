//! Something that the manager is told, in its order.

use proto_schemas::requests::runner::{NewRunEvent, ReportedStatus};
use serde_json::value::RawValue;

/// What waits to be told.
#[derive(Debug)]
pub(crate) enum LogEntry {
    /// This runner takes a command. What it does for it comes behind.
    Acknowledge {
        command_id: String,
    },
    Event(NewRunEvent),
    /// A command has ended.
    Report(LogReport),
    /// There is nothing to do: the lease is given back.
    Release,
}

/// How a command has ended.
#[derive(Clone, Debug)]
pub(crate) struct LogReport {
    pub command_id: String,
    pub status: ReportedStatus,
    pub failure_kind: Option<String>,
    pub failure_message: Option<String>,
    pub session_state: Option<Box<RawValue>>,
}

/// What is told with one call.
#[derive(Clone, Debug)]
pub(crate) enum EntryBatch {
    Acknowledge {
        command_id: String,
    },
    /// Events of one command, or of none: a command that has ended meanwhile refuses no events of others.
    Events {
        command_id: Option<String>,
        events: Vec<NewRunEvent>,
    },
    Report(LogReport),
    Release,
}

impl LogEntry {
    /// What it holds in memory, about.
    pub fn bytes(&self) -> usize {
        const BESIDE: usize = 256;
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        BESIDE
            + match self {
                LogEntry::Acknowledge { .. } | LogEntry::Release => 0,
                LogEntry::Event(event) => event.payload.get().len(),
                LogEntry::Report(report) => {
                    let state = report.session_state.as_ref().map_or(0, |state| state.get().len());
                    text(&report.failure_message) + state
                }
            }
    }

    pub fn command_id(&self) -> Option<&str> {
        match self {
            LogEntry::Acknowledge { command_id } => Some(command_id),
            LogEntry::Event(event) => event.command_id.as_deref(),
            LogEntry::Report(report) => Some(&report.command_id),
            LogEntry::Release => None,
        }
    }
}
