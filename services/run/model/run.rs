//! A run as a commit sees it: what decides about it, its open commands, questions and jobs, and what the commit has changed.

use super::thread::{NewThreadSession, ThreadChanges, ThreadRow};
use proto_schemas::requests::run::{
    CommandState, CommandType, LauncherKind, RunEventType, RunStatus, RunnerIsolation, TerminalStatus,
};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How long after its time-out a command that nobody ends is ended by the server.
pub(crate) const TIMEOUT_GRACE_MS: i64 = 60_000;
/// How long a job counts as active for which no runner has registered, or whose runner has not claimed.
pub(crate) const JOB_START_MS: i64 = 60_000;
/// How long the token of a runner is valid after the last lease of its attempt, or without one after it was made.
pub(crate) const RUNNER_TOKEN_MS: i64 = 600_000;

/// What runs may keep and have.
#[derive(Clone, Debug)]
pub(crate) struct RunLimits {
    pub active_runs: i64,
    pub waiting_commands: i64,
    pub event_bytes: i64,
    /// When this process started, or its clock was set back: nobody could renew a lease before.
    pub started_at: i64,
}

/// Why something did not complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failure {
    pub kind: Option<String>,
    pub message: Option<String>,
}

impl Failure {
    pub fn of(kind: &str, message: &str) -> Failure {
        Failure { kind: Some(kind.to_owned()), message: Some(message.to_owned()) }
    }

    pub fn cancelled(reason: Option<&str>) -> Failure {
        Failure { kind: Some("cancelled".to_owned()), message: reason.map(str::to_owned) }
    }
}

/// Which runner has a run. The last one stays named after its lease has expired: it may renew it until another one takes the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseState {
    pub runner: Option<String>,
    pub attempt: Option<String>,
    pub epoch: i64,
    pub length_ms: i64,
    pub until: i64,
    /// Its owner gave it back.
    pub released: bool,
    pub heartbeat_at: Option<i64>,
}

impl LeaseState {
    /// Whether its owner has it. After a start nobody loses a lease before it could be renewed for once its length.
    pub fn is_live(&self, now: i64, started_at: i64) -> bool {
        self.runner.is_some() && !self.released && now < self.ends_at(started_at)
    }

    pub fn ends_at(&self, started_at: i64) -> i64 {
        self.until.max(started_at + self.length_ms)
    }
}

/// A run, without what never changes and is only shown.
#[derive(Clone, Debug)]
pub(crate) struct RunRow {
    pub id: String,
    pub tenant: String,
    /// The agent whose conversation it is, if it is one.
    pub agent: Option<String>,
    pub session: Option<String>,
    pub timeout_ms: i64,
    pub status: RunStatus,
    pub failure: Failure,
    pub lease: LeaseState,
    /// The runners that were told to wait, the last ones of them.
    pub refused: Vec<String>,
    pub last_seq: i64,
    pub last_command: i64,
    pub event_bytes: i64,
    pub event_rows: i64,
    /// Whether it counts for the limit of its tenant.
    pub active: bool,
    pub due_at: Option<i64>,
    pub created_at: i64,
    pub updated_at: i64,
    pub cancel_at: Option<i64>,
    pub ended_at: Option<i64>,
}

impl RunRow {
    pub fn terminal(&self) -> Option<TerminalStatus> {
        match self.status {
            RunStatus::Completed => Some(TerminalStatus::Completed),
            RunStatus::Failed => Some(TerminalStatus::Failed),
            RunStatus::Blocked => Some(TerminalStatus::Blocked),
            RunStatus::Cancelled => Some(TerminalStatus::Cancelled),
            RunStatus::Pending | RunStatus::Claimed | RunStatus::Running => None,
        }
    }
}

/// A command, without its payload.
#[derive(Clone, Debug)]
pub(crate) struct CommandRow {
    pub id: String,
    pub run_id: String,
    pub seq: i64,
    pub kind: CommandType,
    pub state: CommandState,
    pub payload_hash: String,
    pub key: Option<String>,
    pub target: Option<String>,
    pub acknowledged_at: Option<i64>,
    pub acknowledged_epoch: Option<i64>,
    pub failure: Failure,
    pub created_at: i64,
    pub updated_at: i64,
    pub cancel_at: Option<i64>,
    pub ended_at: Option<i64>,
}

impl CommandRow {
    pub fn terminal(&self) -> Option<TerminalStatus> {
        match self.state {
            CommandState::Completed => Some(TerminalStatus::Completed),
            CommandState::Failed => Some(TerminalStatus::Failed),
            CommandState::Blocked => Some(TerminalStatus::Blocked),
            CommandState::Cancelled => Some(TerminalStatus::Cancelled),
            CommandState::Pending | CommandState::Acknowledged | CommandState::Running => None,
        }
    }

    /// Whether a runner works on it.
    pub fn is_taken(&self) -> bool {
        matches!(self.state, CommandState::Acknowledged | CommandState::Running)
    }
}

/// A question of a back end.
#[derive(Clone, Debug)]
pub(crate) struct ApprovalRow {
    pub run_id: String,
    pub id: String,
    pub command_id: String,
    pub question: Box<RawValue>,
    pub decision: Option<String>,
    pub answer: Option<Box<RawValue>>,
    pub answered_by: Option<String>,
    pub created_at: i64,
    /// The end of its command's time, or an earlier one that its runner has set: afterwards no answer is accepted.
    pub expires_at: i64,
    pub answered_at: Option<i64>,
    /// When its answer was in the log, or nobody waited for it any more.
    pub settled_at: Option<i64>,
}

/// The start of a runner.
#[derive(Clone, Debug)]
pub(crate) struct JobRow {
    pub id: String,
    pub run_id: String,
    pub command_id: String,
    pub attempt: String,
    pub key: Option<String>,
    pub request_hash: String,
    pub launcher: LauncherKind,
    pub env: String,
    pub idle_timeout_ms: i64,
    pub log_ref: String,
    pub runner: Option<String>,
    pub created_at: i64,
    pub registered_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub failed: bool,
    /// Of a runner that the server starts: who looks after its process.
    pub owner: Option<String>,
    pub isolation: Option<RunnerIsolation>,
    pub process: Option<RunnerProcessId>,
}

/// A process, and when it started: a number alone is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunnerProcessId {
    pub pid: i64,
    /// In ticks since the start of the system.
    pub started: i64,
}

impl JobRow {
    /// Whether its runner works, or may still come: while its attempt has the lease, and before it has had one for a while since it was
    /// started or has registered. A time that lies ahead is from before the clock was set back, and says nothing.
    pub fn is_active(&self, lease: &LeaseState, now: i64, started_at: i64) -> bool {
        if self.ended_at.is_some() {
            return false;
        }
        // A caller may give two jobs the same attempt, one after the other: the lease of the first one is older than the second.
        let had_lease = lease.attempt.as_deref() == Some(self.attempt.as_str())
            && lease.heartbeat_at.is_some_and(|at| at >= self.created_at);
        if had_lease {
            return lease.is_live(now, started_at);
        }
        let since = self.registered_at.unwrap_or(self.created_at);
        (0..JOB_START_MS).contains(&(now - since))
    }
}

/// The session of a run, as far as runs change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRow {
    pub id: String,
    pub tenant: String,
    pub profile: String,
    pub state: SessionState,
    pub version: i64,
    pub active_run: Option<String>,
    pub active_command: Option<String>,
    pub last_run: Option<String>,
    pub last_command: Option<String>,
    pub back_end: Option<String>,
    pub storage_kind: String,
    pub storage_bytes: Option<i64>,
    pub updated_at: i64,
}

impl SessionRow {
    /// The session of a new conversation.
    pub fn new(new: &NewThreadSession) -> SessionRow {
        SessionRow {
            id: new.id.clone(),
            tenant: new.tenant.clone(),
            profile: new.profile.clone(),
            state: SessionState::Idle,
            version: 0,
            active_run: None,
            active_command: None,
            last_run: None,
            last_command: None,
            back_end: None,
            storage_kind: "pvc".to_owned(),
            storage_bytes: None,
            updated_at: new.now,
        }
    }
}

/// Whether a session has something running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    Idle,
    Running,
    Terminal,
}

impl SessionState {
    pub fn as_str(self) -> &'static str {
        match self {
            SessionState::Idle => "idle",
            SessionState::Running => "running",
            SessionState::Terminal => "terminal",
        }
    }

    pub fn parse(text: &str) -> SessionState {
        match text {
            "running" => SessionState::Running,
            "terminal" => SessionState::Terminal,
            _ => SessionState::Idle,
        }
    }
}

/// An event that is about to be stored.
#[derive(Clone, Debug)]
pub(crate) struct EventRow {
    pub run_id: String,
    pub seq: i64,
    pub kind: RunEventType,
    pub command_id: Option<String>,
    pub attempt_id: Option<String>,
    pub payload: Box<RawValue>,
    pub client_event_id: Option<String>,
    pub created_at: i64,
}

/// A run with what belongs to it, and which parts were changed.
#[derive(Clone, Debug)]
pub(crate) struct LoadedRun {
    pub row: RunRow,
    /// Those that have not ended, and those that a call names.
    pub commands: BTreeMap<String, CommandRow>,
    /// Those that are not settled, and those that a call names.
    pub approvals: BTreeMap<String, ApprovalRow>,
    pub jobs: Vec<JobRow>,
    /// The conversation of which it is the present run.
    pub thread: Option<ThreadRow>,
    pub thread_changed: bool,
    pub changed: bool,
    pub changed_commands: BTreeSet<String>,
    pub changed_approvals: BTreeSet<String>,
    pub changed_jobs: BTreeSet<String>,
}

impl LoadedRun {
    pub fn new(row: RunRow) -> LoadedRun {
        LoadedRun {
            row,
            commands: BTreeMap::new(),
            approvals: BTreeMap::new(),
            jobs: Vec::new(),
            thread: None,
            thread_changed: false,
            changed: false,
            changed_commands: BTreeSet::new(),
            changed_approvals: BTreeSet::new(),
            changed_jobs: BTreeSet::new(),
        }
    }

    pub fn open_commands(&self) -> impl Iterator<Item = &CommandRow> {
        self.commands.values().filter(|command| command.ended_at.is_none())
    }

    /// In the order in which they were submitted.
    pub fn open_ids(&self) -> Vec<String> {
        let mut open: Vec<&CommandRow> = self.open_commands().collect();
        open.sort_by_key(|command| command.seq);
        open.into_iter().map(|command| command.id.clone()).collect()
    }

    pub fn has_taken_commands(&self) -> bool {
        self.open_commands().any(CommandRow::is_taken)
    }

    /// After the clock was set back nothing lies ahead of it: a lease lasts no longer than its length, and no command was taken later
    /// than now.
    pub fn not_ahead_of(&mut self, now: i64) {
        let lease = &mut self.row.lease;
        if lease.until > now + lease.length_ms {
            lease.until = now + lease.length_ms;
            self.changed = true;
        }
        for command in self.commands.values_mut().filter(|command| command.ended_at.is_none()) {
            if command.acknowledged_at.is_some_and(|at| at > now) {
                command.acknowledged_at = Some(now);
                self.changed_commands.insert(command.id.clone());
                self.changed = true;
            }
        }
    }

    /// Whether the run counts for the limit of its tenant: somebody works on it, or something waits in it.
    pub fn is_active(&self, now: i64, started_at: i64) -> bool {
        let waits = self.open_commands().next().is_some();
        self.row.ended_at.is_none() && (waits || self.row.lease.is_live(now, started_at))
    }

    /// When the server has to look at the run although nobody calls. A run that is active only because of its lease is not any more when
    /// the lease has ended.
    pub fn due_at(&self, started_at: i64) -> Option<i64> {
        if self.row.ended_at.is_some() {
            return None;
        }
        let cancels = self.row.cancel_at.is_some() || self.open_commands().any(|c| c.cancel_at.is_some());
        let idle = self.row.active && self.open_commands().next().is_none();
        let lease_ends =
            (cancels || idle).then(|| match self.row.lease.runner.is_some() && !self.row.lease.released {
                true => self.row.lease.ends_at(started_at),
                false => 0,
            });
        let time_outs = self
            .open_commands()
            .filter_map(|command| Some(command.acknowledged_at? + self.row.timeout_ms + TIMEOUT_GRACE_MS));
        time_outs.chain(lease_ends).min()
    }
}

/// Everything that a commit is about, and what it will write.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    pub runs: HashMap<String, LoadedRun>,
    pub sessions: HashMap<String, SessionRow>,
    pub changed_sessions: BTreeSet<String>,
    /// How many runs of a tenant are active.
    pub active: HashMap<String, i64>,
    /// The runs that were created with a key: by tenant and key, the run and the hash of its request.
    pub keys: HashMap<(String, String), (String, String)>,
    /// Events that are stored already: by run and the id that their runner gave them.
    pub stored: HashMap<String, HashMap<String, i64>>,
    pub new_runs: Vec<NewRunRow>,
    pub new_commands: Vec<NewCommandRow>,
    pub new_approvals: Vec<(String, String)>,
    pub new_jobs: Vec<(String, String)>,
    pub new_tokens: Vec<NewTokenRow>,
    pub new_runners: Vec<NewRunnerRow>,
    /// When the tokens of an attempt end: by run and attempt.
    pub token_ends: BTreeMap<(String, String), RunnerTokenEnd>,
    pub events: Vec<EventRow>,
    pub threads: ThreadChanges,
    pub kept: kernel::KeptSums,
}

/// What a new run has besides its row.
#[derive(Clone, Debug)]
pub(crate) struct NewRunRow {
    pub id: String,
    pub fixed: String,
    pub key: Option<String>,
    pub request_hash: Option<String>,
    pub profile: String,
}

/// What a new command has besides its row.
#[derive(Clone, Debug)]
pub(crate) struct NewCommandRow {
    pub run_id: String,
    pub id: String,
    pub payload: Box<RawValue>,
}

/// The token of a runner.
#[derive(Clone, Debug)]
pub(crate) struct NewTokenRow {
    pub hash: String,
    pub prefix: String,
    pub run_id: String,
    pub attempt: String,
    pub created_at: i64,
}

/// A runner that registers.
#[derive(Clone, Debug)]
pub(crate) struct NewRunnerRow {
    pub id: String,
    pub tenant: String,
    pub run_id: String,
    pub attempt: String,
    pub placement: &'static str,
    pub body: String,
    pub registered_at: i64,
}

/// What becomes of the tokens of an attempt that had not ended at a time. Those that had ended stay so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunnerTokenEnd {
    pub decided_at: i64,
    /// None: as long as the attempt has the lease.
    pub ends_at: Option<i64>,
}

impl Runs {
    pub fn is_unchanged(&self) -> bool {
        self.new_runs.is_empty()
            && self.changed_sessions.is_empty()
            && self.runs.values().all(|run| !run.changed)
    }
}
