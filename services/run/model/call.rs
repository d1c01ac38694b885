//! What may be asked of a run, and what is answered.

use crate::access::RunAccess;
use crate::error::{Error, LeaseConflict};
use crate::ids::can_exist;
use crate::model::run::{Failure, RunnerProcessId};
use crate::model::thread::{GivenAnswer, NewPart, NewThreadSession, NewTurn, ThreadRow};
use kernel::Payer;
use proto_schemas::requests::run::{
    CommandType, LauncherKind, RunEventType, RunnerIsolation, TerminalStatus,
};
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
    /// A front end answers all open questions, and shows the rest of the turn as a run of its own.
    Resume {
        answers: Vec<GivenAnswer>,
        part: Box<NewPart>,
    },
    Register(Box<NewRunner>),
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
    /// The process of a job that the server has started.
    Started {
        job_id: String,
        process: RunnerProcessId,
    },
    /// The process of a job has ended, or could not be started.
    ProcessEnded {
        job_id: String,
        failed: bool,
        /// Why it could not be started.
        message: Option<String>,
    },
    /// The task that the run works on has ended.
    End {
        status: TerminalStatus,
        failure: Failure,
    },
    /// Ends a turn for which no runner could be had.
    FailCommand {
        command_id: String,
        failure: Failure,
    },
    /// Ends what is over: leases with a cancel, commands after their time-out.
    Sweep,
}

/// Who says that it has the lease.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub runner_id: String,
    pub epoch: i64,
    /// The attempt that its token is for. None: it acts for any.
    pub attempt: Option<String>,
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
    /// The conversation that goes on in it.
    pub thread: Option<Box<NewThreadRun>>,
}

#[derive(Clone, Debug)]
pub(crate) struct NewCommand {
    pub id: String,
    pub kind: CommandType,
    pub payload: Box<RawValue>,
    pub payload_hash: String,
    pub key: Option<String>,
    /// What a user of a front end says with it.
    pub turn: Option<Box<NewTurn>>,
}

/// The run in which the turns of a conversation are from now on, with the first of them.
#[derive(Clone, Debug)]
pub(crate) struct NewThreadRun {
    /// Without the run. Of a new conversation, it is its first.
    pub thread: ThreadRow,
    /// A new conversation is a new session.
    pub session: Option<NewThreadSession>,
    pub command: NewCommand,
}

#[derive(Clone, Debug)]
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
    /// The profile of the run, if its credential is not there.
    pub no_credential: Option<String>,
    /// Whether the storage of the session is there; checked before.
    pub storage: StorageCheck,
    pub session_bytes: i64,
    /// Where the server starts the runner itself.
    pub local: Option<NewLocalJob>,
}

/// What is known of a runner before the server starts it.
#[derive(Clone, Debug)]
pub(crate) struct NewLocalJob {
    pub owner: String,
    pub isolation: RunnerIsolation,
    /// The number of runners that this server may have, if it has as many.
    pub full: Option<usize>,
}

/// A runner that announces itself.
#[derive(Debug)]
pub(crate) struct NewRunner {
    pub id: String,
    pub attempt: String,
    pub placement: &'static str,
    /// What it says of itself, as JSON.
    pub body: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageCheck {
    Present,
    Missing,
    /// It has more than a session may store.
    Full,
    /// Nobody has looked yet: that costs something, and is done when nothing else refuses the job.
    Unknown,
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
    /// With the time after which the runner wants no answer, if it has said one.
    ApprovalRequest {
        approval_id: String,
        expires_at: Option<i64>,
    },
    ApprovalResolved {
        approval_id: String,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct RunnerReport {
    pub status: ReportedStatus,
    pub failure_kind: Option<String>,
    pub failure_message: Option<String>,
}

#[derive(Debug)]
pub(crate) enum RunAnswer {
    Run {
        run_id: String,
        created: bool,
    },
    Command {
        command_id: String,
        created: bool,
    },
    Job {
        run_id: String,
        job_id: String,
        created: bool,
    },
    /// A job may be added if the storage of the session allows it.
    StorageUnknown,
    Approved,
    Registered {
        at: i64,
    },
    Claimed {
        epoch: i64,
        until: i64,
        recovered: bool,
    },
    Lease(LeaseAnswer),
    Released {
        pending: i64,
    },
    Appended(AppendedRunEvents),
    /// Whether the report has ended its command: the same report again changes nothing.
    Reported {
        ended: bool,
    },
    /// What the server knows of a process is stored.
    ProcessNoted,
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
pub(crate) fn lease_conflict(conflict: LeaseConflict) -> Error {
    Error::Lease(Box::new(conflict))
}

impl NewCommand {
    fn bytes(&self) -> usize {
        let turn = self.turn.as_ref().map_or(0, |turn| turn.part.bytes() + turn.text.len());
        self.payload.get().len() + turn
    }
}

/// What a call holds in memory besides what it carries.
const CALL_BYTES: usize = 256;

impl RunCall {
    /// Refuses a name that nothing can have, before it is looked for. The names of all calls of a batch are parameters of one statement,
    /// and a NUL in one of them would fail the calls of everybody.
    pub fn check_ids(&self) -> Result<(), Error> {
        let exists = |what: &str, id: &str| match can_exist(id) {
            true => Ok(()),
            false => Err(Error::NotFound(format!("{what} {id}"))),
        };
        exists("run", &self.run_id)?;
        match &self.operation {
            RunOperation::Create(new) => {
                new.session.as_deref().map_or(Ok(()), |session| exists("session", session))
            }
            RunOperation::AddJob(new) => exists("command", &new.command_id),
            RunOperation::CancelCommand { command_id, .. }
            | RunOperation::Acknowledge { command_id, .. }
            | RunOperation::FailCommand { command_id, .. }
            | RunOperation::ReportCommand { command_id, .. } => exists("command", command_id),
            RunOperation::Append { events, .. } => {
                let mut named = events.iter().filter_map(|event| event.command_id.as_deref());
                named.try_for_each(|command| exists("command", command))
            }
            RunOperation::Approve { approval_id, .. } if !can_exist(approval_id) => {
                Err(Error::Invalid("approvalId must not have control characters".to_owned()))
            }
            RunOperation::Claim { runner_id, .. } => exists("runner", runner_id),
            RunOperation::Approve { .. }
            | RunOperation::Resume { .. }
            | RunOperation::AddCommand(_)
            | RunOperation::CancelRun { .. }
            | RunOperation::Register(_)
            | RunOperation::Renew { .. }
            | RunOperation::Release { .. }
            | RunOperation::ReportRun { .. }
            | RunOperation::Started { .. }
            | RunOperation::ProcessEnded { .. }
            | RunOperation::End { .. }
            | RunOperation::Sweep => Ok(()),
        }
    }
}

impl RunOperation {
    /// What it counts while it waits for a commit.
    pub fn bytes(&self) -> usize {
        let carried = match self {
            RunOperation::Create(new) => {
                new.fixed.len() + new.thread.as_ref().map_or(0, |thread| thread.command.bytes())
            }
            RunOperation::AddCommand(new) => new.bytes(),
            RunOperation::Resume { answers, part } => {
                let given = answers.iter().filter_map(|answer| answer.payload.as_ref());
                part.bytes() + given.map(|payload| payload.get().len()).sum::<usize>()
            }
            RunOperation::AddJob(new) => new.env.len(),
            RunOperation::Register(new) => new.body.len(),
            RunOperation::Approve { answer, .. } => answer.as_ref().map_or(0, |answer| answer.get().len()),
            RunOperation::Append { events, .. } => {
                events.iter().map(|event| event.payload.get().len() + CALL_BYTES).sum()
            }
            RunOperation::CancelRun { .. }
            | RunOperation::CancelCommand { .. }
            | RunOperation::FailCommand { .. }
            | RunOperation::Claim { .. }
            | RunOperation::Renew { .. }
            | RunOperation::Release { .. }
            | RunOperation::Acknowledge { .. }
            | RunOperation::ReportCommand { .. }
            | RunOperation::ReportRun { .. }
            | RunOperation::Started { .. }
            | RunOperation::ProcessEnded { .. }
            | RunOperation::End { .. }
            | RunOperation::Sweep => 0,
        };
        carried + CALL_BYTES
    }
}
