//! What the driver has to do.

use crate::back_end::attachment::TurnAttachment;
use crate::back_end::{ApprovalAnswer, TurnRequest};
use crate::manager::WorkOver;
use crate::work::turn_end::TurnReport;
use proto_schemas::requests::run::RunEventType;
use serde_json::Value;

/// One thing to do.
#[derive(Debug, PartialEq)]
pub(in crate::work) enum WorkAction {
    /// Take a command.
    Acknowledge {
        command_id: String,
    },
    /// Fetch the images of a turn that this runner has taken.
    Fetch {
        command_id: String,
        attachments: Vec<TurnAttachment>,
    },
    /// Begin a turn that this runner has taken.
    Begin(TurnRequest),
    /// Ask the back end what became of a turn that an earlier runner began.
    AskPast {
        command_id: String,
    },
    /// Give guidance to the turn under way.
    Steer {
        command_id: String,
        target: String,
        text: String,
    },
    Interrupt,
    /// End the back end with everything that it started. The turn under way ends with it.
    StopBackEnd,
    Answer(ApprovalAnswer),
    Append {
        command_id: Option<String>,
        kind: RunEventType,
        payload: Value,
    },
    /// The turn has ended. Without a report the manager knows it already.
    Finish {
        command_id: String,
        report: Option<TurnReport>,
        ui_hints: Option<Value>,
    },
    /// Another command has ended.
    Report {
        command_id: String,
        report: TurnReport,
    },
    /// What waits to be said about this command is of no use.
    Forget {
        command_id: String,
    },
    /// Ask the manager now what has become of the run.
    Check,
    Release,
    End(WorkEnd),
}

/// How the work ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::work) enum WorkEnd {
    /// There was nothing to do, and the lease was given back.
    Released,
    RunEnded,
    /// The runner was told to end.
    Stopped,
    Over(WorkOver),
}
