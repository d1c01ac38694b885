//! What may be asked of a run, and what is answered.

use crate::access::RunAccess;
use crate::error::LeaseConflict;
use kernel::Payer;
use proto_schemas::requests::run::{CommandType, LauncherKind, RunEventType};
use proto_schemas::requests::runner::{AppendedRunEvents, CancelScope, ReportedStatus};
use serde_json::value::RawValue;

/// One call, as the queue has it.
#[derive(Debug)]
pub(crate) struct RunCall {
    pub run_id: String,
    pub access: CallAccess,
    pub operation: RunOperation,
}

/// Who asks: somebody with rights, or the server itself.
#[derive(Clone, Debug)]
pub(crate) enum CallAccess {
    Of(RunAccess),
    System,
}

#[derive(Debug)]
pub(crate) enum RunOperation {
    Create(Box<NewRun>),
    AddCommand(NewCommand),
    CancelRun {
        reason: Option<String>,
    },
    CancelCommand {
        command_id: String,
        reason: Option<String>,
    },
    AddJob(Box<NewJob>),
    Approve {
        approval_id: String,
        command_id: Option<String>,
        decision: String,
        answer: Option<Box<RawValue>>,
        by: String,
    },
    Register {
        runner_id: String,
        attempt: String,
    },
    Claim {
        runner_id: String,
        attempt: String,
        lease_ms: i64,
    },
    Renew {
        holder: Holder,
        lease_ms: Option<i64>,
    },
    Release {
        holder: Holder,
    },
    Append {
        holder: Holder,
        events: Vec<NewEvent>,
    },
    Acknowledge {
        holder: Holder,
        command_id: String,
    },
    ReportCommand {
        holder: Holder,
        command_id: String,
        report: RunnerReport,
        back_end: Option<String>,
    },
    ReportRun {
        holder: Holder,
        report: RunnerReport,
    },
    /// Ends what is over: leases with a cancel, commands after their time-out.
    Sweep,
}

/// Who says that it has the lease.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub runner_id: String,
    pub epoch: i64,
}

#[derive(Debug)]
pub(crate) struct NewRun {
    pub tenant: String,
    pub payer: Payer,
    pub profile: String,
    pub session: Option<String>,
    pub fixed: String,
    pub timeout_ms: i64,
    pub key: Option<String>,
    pub request_hash: Option<String>,
}

#[derive(Debug)]
pub(crate) struct NewCommand {
    pub id: String,
    pub kind: CommandType,
    pub payload: Box<RawValue>,
    pub payload_hash: String,
    pub key: Option<String>,
}

#[derive(Debug)]
pub(crate) struct NewJob {
    pub id: String,
    pub command_id: String,
    pub attempt: String,
    pub key: Option<String>,
    pub request_hash: String,
    pub launcher: LauncherKind,
    pub env: String,
    pub idle_timeout_ms: i64,
    pub log_ref: String,
    pub token_hash: String,
    pub token_prefix: String,
    /// Whether the storage of the session is there; checked before.
    pub storage: StorageCheck,
    pub session_bytes: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageCheck {
    Present,
    Missing,
    /// It has more than a session may store.
    Full,
}

/// An event with a payload that was checked and redacted.
#[derive(Debug)]
pub(crate) struct NewEvent {
    pub client_event_id: String,
    pub kind: RunEventType,
    pub command_id: Option<String>,
    pub payload: Box<RawValue>,
    /// What the model has to know of it.
    pub facts: EventFacts,
}

#[derive(Debug)]
pub(crate) enum EventFacts {
    Nothing,
    ApprovalRequest { approval_id: String },
    ApprovalResolved { approval_id: String },
}

#[derive(Clone, Debug)]
pub(crate) struct RunnerReport {
    pub status: ReportedStatus,
    pub failure_kind: Option<String>,
    pub failure_message: Option<String>,
}

#[derive(Debug)]
pub(crate) enum RunAnswer {
    Run { run_id: String, created: bool },
    Command { command_id: String, created: bool },
    Job { run_id: String, job_id: String, created: bool },
    Approved,
    Claimed { epoch: i64, until: i64, recovered: bool },
    Lease(LeaseAnswer),
    Released { pending: i64 },
    Appended(AppendedRunEvents),
    Swept,
}

/// A renewed lease, and what its owner should know.
#[derive(Debug)]
pub(crate) struct LeaseAnswer {
    pub attempt: String,
    pub epoch: i64,
    pub until: i64,
    pub cancel: CancelFlags,
}

/// What was asked to be cancelled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CancelFlags {
    pub scope: Option<CancelScope>,
    pub command_ids: Vec<String>,
}

/// A refusal that names who has the lease.
pub(crate) fn lease_conflict(conflict: LeaseConflict) -> crate::error::Error {
    crate::error::Error::Lease(Box::new(conflict))
}

/// What a call holds in memory besides what it carries.
const CALL_BYTES: usize = 256;

impl RunOperation {
    /// What it counts while it waits for a commit.
    pub fn bytes(&self) -> usize {
        let carried = match self {
            RunOperation::Create(new) => new.fixed.len(),
            RunOperation::AddCommand(new) => new.payload.get().len(),
            RunOperation::AddJob(new) => new.env.len(),
            RunOperation::Approve { answer, .. } => answer.as_ref().map_or(0, |answer| answer.get().len()),
            RunOperation::Append { events, .. } => {
                events.iter().map(|event| event.payload.get().len() + CALL_BYTES).sum()
            }
            RunOperation::CancelRun { .. }
            | RunOperation::CancelCommand { .. }
            | RunOperation::Register { .. }
            | RunOperation::Claim { .. }
            | RunOperation::Renew { .. }
            | RunOperation::Release { .. }
            | RunOperation::Acknowledge { .. }
            | RunOperation::ReportCommand { .. }
            | RunOperation::ReportRun { .. }
            | RunOperation::Sweep => 0,
        };
        carried + CALL_BYTES
    }
}
