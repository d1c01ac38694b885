//! Rows, as they are read and written: each is one JSON text on its way, an array when it is read and an object when it is written.

use crate::model::run::{
    ApprovalRow, CommandRow, EventRow, Failure, JobRow, LeaseState, NewRunRow, NewRunnerRow, NewTokenRow,
    RunRow, RunnerProcessId, RunnerTokenEnd, SessionRow, SessionState,
};
use kernel::Payer;
use kernel::json_rows::Column;
use proto_schemas::requests::run::{
    CommandState, CommandType, LauncherKind, RunEventType, RunStatus, RunnerIsolation,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The members of [`StoredRun`], in their order. Those of the first [`RUN_CHANGES`] may change, but for the id.
pub(super) const RUN: [Column; 26] = [
    ("id", "TEXT"),
    ("status", "TEXT"),
    ("failure_kind", "TEXT"),
    ("failure_message", "TEXT"),
    ("lease_runner", "TEXT"),
    ("lease_attempt", "TEXT"),
    ("lease_epoch", "BIGINT"),
    ("lease_ms", "BIGINT"),
    ("lease_until", "BIGINT"),
    ("lease_released", "BIGINT"),
    ("heartbeat_at", "BIGINT"),
    ("refused_runners", "TEXT"),
    ("last_seq", "BIGINT"),
    ("last_command", "BIGINT"),
    ("event_bytes", "BIGINT"),
    ("event_rows", "BIGINT"),
    ("active", "BIGINT"),
    ("due_at", "BIGINT"),
    ("updated_at", "BIGINT"),
    ("cancel_at", "BIGINT"),
    ("ended_at", "BIGINT"),
    ("tenant", "TEXT"),
    ("session_id", "TEXT"),
    ("timeout_ms", "BIGINT"),
    ("created_at", "BIGINT"),
    ("agent", "TEXT"),
];
pub(super) const RUN_CHANGES: usize = 21;

/// What a new run has besides, in the order of the members of [`WrittenRun`].
pub(super) const RUN_NEW: [Column; 5] = [
    ("payer", "TEXT"),
    ("fixed", "TEXT"),
    ("profile", "TEXT"),
    ("idempotency_key", "TEXT"),
    ("request_hash", "TEXT"),
];

/// In the order of the members of [`StoredRun`].
pub(super) const RUN_READ: &str = "id, status, failure_kind, failure_message, lease_runner, lease_attempt, lease_epoch, \
     lease_ms, lease_until, lease_released, heartbeat_at, refused_runners, last_seq, last_command, event_bytes, event_rows, \
     active, due_at, updated_at, cancel_at, ended_at, tenant, session_id, timeout_ms, created_at, agent";

#[derive(Serialize, Deserialize)]
pub(super) struct StoredRun {
    id: String,
    status: RunStatus,
    failure_kind: Option<String>,
    failure_message: Option<String>,
    lease_runner: Option<String>,
    lease_attempt: Option<String>,
    lease_epoch: i64,
    lease_ms: i64,
    lease_until: i64,
    lease_released: i64,
    heartbeat_at: Option<i64>,
    refused_runners: String,
    last_seq: i64,
    last_command: i64,
    event_bytes: i64,
    event_rows: i64,
    active: i64,
    due_at: Option<i64>,
    updated_at: i64,
    cancel_at: Option<i64>,
    ended_at: Option<i64>,
    tenant: String,
    session_id: Option<String>,
    timeout_ms: i64,
    created_at: i64,
    agent: Option<String>,
}

/// A new run, as it is written.
#[derive(Serialize)]
pub(super) struct WrittenRun<'a> {
    #[serde(flatten)]
    row: StoredRun,
    payer: String,
    fixed: &'a str,
    profile: &'a str,
    idempotency_key: Option<&'a str>,
    request_hash: Option<&'a str>,
}

impl<'a> WrittenRun<'a> {
    pub fn of(row: &RunRow, new: &'a NewRunRow) -> WrittenRun<'a> {
        WrittenRun {
            row: StoredRun::of(row),
            payer: Payer::tenant(&row.tenant).key().to_owned(),
            fixed: &new.fixed,
            profile: &new.profile,
            idempotency_key: new.key.as_deref(),
            request_hash: new.request_hash.as_deref(),
        }
    }
}

impl StoredRun {
    pub fn of(row: &RunRow) -> StoredRun {
        let lease = row.lease.clone();
        StoredRun {
            id: row.id.clone(),
            status: row.status,
            failure_kind: row.failure.kind.clone(),
            failure_message: row.failure.message.clone(),
            lease_runner: lease.runner,
            lease_attempt: lease.attempt,
            lease_epoch: lease.epoch,
            lease_ms: lease.length_ms,
            lease_until: lease.until,
            lease_released: i64::from(lease.released),
            heartbeat_at: lease.heartbeat_at,
            refused_runners: row.refused.join(" "),
            last_seq: row.last_seq,
            last_command: row.last_command,
            event_bytes: row.event_bytes,
            event_rows: row.event_rows,
            active: i64::from(row.active),
            due_at: row.due_at,
            updated_at: row.updated_at,
            cancel_at: row.cancel_at,
            ended_at: row.ended_at,
            tenant: row.tenant.clone(),
            session_id: row.session.clone(),
            timeout_ms: row.timeout_ms,
            created_at: row.created_at,
            agent: row.agent.clone(),
        }
    }

    pub fn read(self) -> RunRow {
        RunRow {
            id: self.id,
            tenant: self.tenant,
            agent: self.agent,
            session: self.session_id,
            timeout_ms: self.timeout_ms,
            status: self.status,
            failure: Failure { kind: self.failure_kind, message: self.failure_message },
            lease: LeaseState {
                runner: self.lease_runner,
                attempt: self.lease_attempt,
                epoch: self.lease_epoch,
                length_ms: self.lease_ms,
                until: self.lease_until,
                released: self.lease_released == 1,
                heartbeat_at: self.heartbeat_at,
            },
            refused: self.refused_runners.split_whitespace().map(str::to_owned).collect(),
            last_seq: self.last_seq,
            last_command: self.last_command,
            event_bytes: self.event_bytes,
            event_rows: self.event_rows,
            active: self.active == 1,
            due_at: self.due_at,
            created_at: self.created_at,
            updated_at: self.updated_at,
            cancel_at: self.cancel_at,
            ended_at: self.ended_at,
        }
    }
}

/// The members of [`StoredCommand`], in their order. Those of the first [`COMMAND_CHANGES`] may change, but for the id.
pub(super) const COMMAND: [Column; 16] = [
    ("id", "TEXT"),
    ("state", "TEXT"),
    ("target_id", "TEXT"),
    ("acknowledged_at", "BIGINT"),
    ("acknowledged_epoch", "BIGINT"),
    ("failure_kind", "TEXT"),
    ("failure_message", "TEXT"),
    ("updated_at", "BIGINT"),
    ("cancel_at", "BIGINT"),
    ("ended_at", "BIGINT"),
    ("run_id", "TEXT"),
    ("seq", "BIGINT"),
    ("kind", "TEXT"),
    ("payload_hash", "TEXT"),
    ("idempotency_key", "TEXT"),
    ("created_at", "BIGINT"),
];
pub(super) const COMMAND_CHANGES: usize = 10;
/// What a new command has besides.
pub(super) const COMMAND_NEW: [Column; 2] = [("payer", "TEXT"), ("payload", "TEXT")];
/// In the order of the members of [`StoredCommand`].
pub(super) const COMMAND_READ: &str = "id, state, target_id, acknowledged_at, acknowledged_epoch, failure_kind, \
     failure_message, updated_at, cancel_at, ended_at, run_id, seq, kind, payload_hash, idempotency_key, created_at";

#[derive(Serialize, Deserialize)]
pub(super) struct StoredCommand {
    id: String,
    state: CommandState,
    target_id: Option<String>,
    acknowledged_at: Option<i64>,
    acknowledged_epoch: Option<i64>,
    failure_kind: Option<String>,
    failure_message: Option<String>,
    updated_at: i64,
    cancel_at: Option<i64>,
    ended_at: Option<i64>,
    run_id: String,
    seq: i64,
    kind: CommandType,
    payload_hash: String,
    idempotency_key: Option<String>,
    created_at: i64,
}

#[derive(Serialize)]
pub(super) struct WrittenCommand<'a> {
    #[serde(flatten)]
    row: StoredCommand,
    payer: String,
    payload: &'a str,
}

impl<'a> WrittenCommand<'a> {
    pub fn of(row: &CommandRow, tenant: &str, payload: &'a RawValue) -> WrittenCommand<'a> {
        let payer = Payer::tenant(tenant).key().to_owned();
        WrittenCommand { row: StoredCommand::of(row), payer, payload: payload.get() }
    }
}

impl StoredCommand {
    pub fn of(row: &CommandRow) -> StoredCommand {
        StoredCommand {
            id: row.id.clone(),
            state: row.state,
            target_id: row.target.clone(),
            acknowledged_at: row.acknowledged_at,
            acknowledged_epoch: row.acknowledged_epoch,
            failure_kind: row.failure.kind.clone(),
            failure_message: row.failure.message.clone(),
            updated_at: row.updated_at,
            cancel_at: row.cancel_at,
            ended_at: row.ended_at,
            run_id: row.run_id.clone(),
            seq: row.seq,
            kind: row.kind,
            payload_hash: row.payload_hash.clone(),
            idempotency_key: row.key.clone(),
            created_at: row.created_at,
        }
    }

    pub fn read(self) -> CommandRow {
        CommandRow {
            id: self.id,
            run_id: self.run_id,
            seq: self.seq,
            kind: self.kind,
            state: self.state,
            payload_hash: self.payload_hash,
            key: self.idempotency_key,
            target: self.target_id,
            acknowledged_at: self.acknowledged_at,
            acknowledged_epoch: self.acknowledged_epoch,
            failure: Failure { kind: self.failure_kind, message: self.failure_message },
            created_at: self.created_at,
            updated_at: self.updated_at,
            cancel_at: self.cancel_at,
            ended_at: self.ended_at,
        }
    }
}

pub(super) const EVENT: [Column; 8] = [
    ("run_id", "TEXT"),
    ("seq", "BIGINT"),
    ("kind", "TEXT"),
    ("command_id", "TEXT"),
    ("attempt_id", "TEXT"),
    ("payload", "TEXT"),
    ("client_event_id", "TEXT"),
    ("created_at", "BIGINT"),
];

#[derive(Serialize)]
pub(super) struct WrittenRunEvent<'a> {
    run_id: &'a str,
    seq: i64,
    kind: RunEventType,
    command_id: Option<&'a str>,
    attempt_id: Option<&'a str>,
    payload: &'a str,
    client_event_id: Option<&'a str>,
    created_at: i64,
}

impl<'a> WrittenRunEvent<'a> {
    pub fn of(row: &'a EventRow) -> WrittenRunEvent<'a> {
        WrittenRunEvent {
            run_id: &row.run_id,
            seq: row.seq,
            kind: row.kind,
            command_id: row.command_id.as_deref(),
            attempt_id: row.attempt_id.as_deref(),
            payload: row.payload.get(),
            client_event_id: row.client_event_id.as_deref(),
            created_at: row.created_at,
        }
    }
}

pub(super) const APPROVAL: [Column; 12] = [
    ("run_id", "TEXT"),
    ("approval_id", "TEXT"),
    ("command_id", "TEXT"),
    ("question", "TEXT"),
    ("decision", "TEXT"),
    ("answer", "TEXT"),
    ("answered_by", "TEXT"),
    ("created_at", "BIGINT"),
    ("expires_at", "BIGINT"),
    ("answered_at", "BIGINT"),
    ("settled_at", "BIGINT"),
    ("payer", "TEXT"),
];
/// In the order of the members of [`StoredApproval`].
pub(super) const APPROVAL_READ: &str = "run_id, approval_id, command_id, question, decision, answer, answered_by, \
     created_at, expires_at, answered_at, settled_at, payer";

#[derive(Serialize, Deserialize)]
pub(super) struct StoredApproval {
    run_id: String,
    approval_id: String,
    command_id: String,
    question: String,
    decision: Option<String>,
    answer: Option<String>,
    answered_by: Option<String>,
    created_at: i64,
    expires_at: i64,
    answered_at: Option<i64>,
    settled_at: Option<i64>,
    payer: String,
}

impl StoredApproval {
    pub fn of(row: &ApprovalRow, tenant: &str) -> StoredApproval {
        StoredApproval {
            run_id: row.run_id.clone(),
            approval_id: row.id.clone(),
            command_id: row.command_id.clone(),
            question: row.question.get().to_owned(),
            decision: row.decision.clone(),
            answer: row.answer.as_ref().map(|answer| answer.get().to_owned()),
            answered_by: row.answered_by.clone(),
            created_at: row.created_at,
            expires_at: row.expires_at,
            answered_at: row.answered_at,
            settled_at: row.settled_at,
            payer: Payer::tenant(tenant).key().to_owned(),
        }
    }

    pub fn read(self) -> sqlx::Result<ApprovalRow> {
        Ok(ApprovalRow {
            run_id: self.run_id,
            id: self.approval_id,
            command_id: self.command_id,
            question: RawValue::from_string(self.question).map_err(damaged)?,
            decision: self.decision,
            answer: self.answer.map(RawValue::from_string).transpose().map_err(damaged)?,
            answered_by: self.answered_by,
            created_at: self.created_at,
            expires_at: self.expires_at,
            answered_at: self.answered_at,
            settled_at: self.settled_at,
        })
    }
}

pub(super) const JOB: [Column; 20] = [
    ("id", "TEXT"),
    ("run_id", "TEXT"),
    ("command_id", "TEXT"),
    ("attempt_id", "TEXT"),
    ("idempotency_key", "TEXT"),
    ("request_hash", "TEXT"),
    ("launcher", "TEXT"),
    ("env", "TEXT"),
    ("idle_timeout_ms", "BIGINT"),
    ("log_ref", "TEXT"),
    ("runner_id", "TEXT"),
    ("created_at", "BIGINT"),
    ("registered_at", "BIGINT"),
    ("ended_at", "BIGINT"),
    ("failed", "BIGINT"),
    ("server", "TEXT"),
    ("isolation", "TEXT"),
    ("pid", "BIGINT"),
    ("pid_started", "BIGINT"),
    ("payer", "TEXT"),
];
/// In the order of the members of [`StoredJob`].
pub(super) const JOB_READ: &str = "id, run_id, command_id, attempt_id, idempotency_key, request_hash, launcher, env, \
     idle_timeout_ms, log_ref, runner_id, created_at, registered_at, ended_at, failed, server, isolation, pid, \
     pid_started, payer";

#[derive(Serialize, Deserialize)]
pub(super) struct StoredJob {
    id: String,
    run_id: String,
    command_id: String,
    attempt_id: String,
    idempotency_key: Option<String>,
    request_hash: String,
    launcher: LauncherKind,
    env: String,
    idle_timeout_ms: i64,
    log_ref: String,
    runner_id: Option<String>,
    created_at: i64,
    registered_at: Option<i64>,
    ended_at: Option<i64>,
    failed: i64,
    server: Option<String>,
    isolation: Option<RunnerIsolation>,
    pid: Option<i64>,
    pid_started: Option<i64>,
    payer: String,
}

impl StoredJob {
    pub fn of(row: &JobRow, tenant: &str) -> StoredJob {
        StoredJob {
            id: row.id.clone(),
            run_id: row.run_id.clone(),
            command_id: row.command_id.clone(),
            attempt_id: row.attempt.clone(),
            idempotency_key: row.key.clone(),
            request_hash: row.request_hash.clone(),
            launcher: row.launcher,
            env: row.env.clone(),
            idle_timeout_ms: row.idle_timeout_ms,
            log_ref: row.log_ref.clone(),
            runner_id: row.runner.clone(),
            created_at: row.created_at,
            registered_at: row.registered_at,
            ended_at: row.ended_at,
            failed: i64::from(row.failed),
            server: row.owner.clone(),
            isolation: row.isolation,
            pid: row.process.map(|process| process.pid),
            pid_started: row.process.map(|process| process.started),
            payer: Payer::tenant(tenant).key().to_owned(),
        }
    }

    pub fn read(self) -> JobRow {
        JobRow {
            id: self.id,
            run_id: self.run_id,
            command_id: self.command_id,
            attempt: self.attempt_id,
            key: self.idempotency_key,
            request_hash: self.request_hash,
            launcher: self.launcher,
            env: self.env,
            idle_timeout_ms: self.idle_timeout_ms,
            log_ref: self.log_ref,
            runner: self.runner_id,
            created_at: self.created_at,
            registered_at: self.registered_at,
            ended_at: self.ended_at,
            failed: self.failed == 1,
            owner: self.server,
            isolation: self.isolation,
            process: self.pid.zip(self.pid_started).map(|(pid, started)| RunnerProcessId { pid, started }),
        }
    }
}

/// The members of [`StoredSession`], in their order. Runs change the first [`SESSION_CHANGES`], but for the id.
pub(super) const SESSION: [Column; 13] = [
    ("id", "TEXT"),
    ("state", "TEXT"),
    ("version", "BIGINT"),
    ("active_run", "TEXT"),
    ("active_command", "TEXT"),
    ("last_run", "TEXT"),
    ("last_command", "TEXT"),
    ("back_end", "TEXT"),
    ("updated_at", "BIGINT"),
    ("tenant", "TEXT"),
    ("profile", "TEXT"),
    ("storage_kind", "TEXT"),
    ("storage_bytes", "BIGINT"),
];
pub(super) const SESSION_CHANGES: usize = 9;
/// In the order of the members of [`StoredSession`].
pub(super) const SESSION_READ: &str = "id, state, version, active_run, active_command, last_run, last_command, back_end, \
     updated_at, tenant, profile, storage_kind, storage_bytes";

#[derive(Serialize, Deserialize)]
pub(super) struct StoredSession {
    id: String,
    state: String,
    version: i64,
    active_run: Option<String>,
    active_command: Option<String>,
    last_run: Option<String>,
    last_command: Option<String>,
    back_end: Option<String>,
    updated_at: i64,
    tenant: String,
    profile: String,
    storage_kind: String,
    storage_bytes: Option<i64>,
}

impl StoredSession {
    pub fn of(row: &SessionRow) -> StoredSession {
        let row = row.clone();
        StoredSession {
            id: row.id,
            state: row.state.as_str().to_owned(),
            version: row.version,
            active_run: row.active_run,
            active_command: row.active_command,
            last_run: row.last_run,
            last_command: row.last_command,
            back_end: row.back_end,
            updated_at: row.updated_at,
            tenant: row.tenant,
            profile: row.profile,
            storage_kind: row.storage_kind,
            storage_bytes: row.storage_bytes,
        }
    }

    pub fn read(self) -> SessionRow {
        SessionRow {
            id: self.id,
            tenant: self.tenant,
            profile: self.profile,
            state: SessionState::parse(&self.state),
            version: self.version,
            active_run: self.active_run,
            active_command: self.active_command,
            last_run: self.last_run,
            last_command: self.last_command,
            back_end: self.back_end,
            storage_kind: self.storage_kind,
            storage_bytes: self.storage_bytes,
            updated_at: self.updated_at,
        }
    }
}

pub(super) const TOKEN: [Column; 6] = [
    ("hash", "TEXT"),
    ("prefix", "TEXT"),
    ("kind", "TEXT"),
    ("run_id", "TEXT"),
    ("attempt_id", "TEXT"),
    ("created_at", "BIGINT"),
];

#[derive(Serialize)]
pub(super) struct WrittenToken<'a> {
    hash: &'a str,
    prefix: &'a str,
    kind: &'static str,
    run_id: &'a str,
    attempt_id: &'a str,
    created_at: i64,
}

impl<'a> WrittenToken<'a> {
    pub fn of(row: &'a NewTokenRow) -> WrittenToken<'a> {
        WrittenToken {
            hash: &row.hash,
            prefix: &row.prefix,
            kind: crate::access::RUNNER,
            run_id: &row.run_id,
            attempt_id: &row.attempt,
            created_at: row.created_at,
        }
    }
}

/// In the order of the members of [`WrittenTokenEnd`].
pub(super) const TOKEN_END: [Column; 4] =
    [("run_id", "TEXT"), ("attempt_id", "TEXT"), ("ends_at", "BIGINT"), ("decided_at", "BIGINT")];

#[derive(Serialize)]
pub(super) struct WrittenTokenEnd<'a> {
    run_id: &'a str,
    attempt_id: &'a str,
    ends_at: Option<i64>,
    decided_at: i64,
}

impl<'a> WrittenTokenEnd<'a> {
    pub fn of((run_id, attempt_id): &'a (String, String), end: RunnerTokenEnd) -> WrittenTokenEnd<'a> {
        let RunnerTokenEnd { decided_at, ends_at } = end;
        WrittenTokenEnd { run_id, attempt_id, ends_at, decided_at }
    }
}

/// In the order of the members of [`WrittenRunner`].
pub(super) const RUNNER: [Column; 7] = [
    ("id", "TEXT"),
    ("payer", "TEXT"),
    ("run_id", "TEXT"),
    ("attempt_id", "TEXT"),
    ("placement", "TEXT"),
    ("body", "TEXT"),
    ("registered_at", "BIGINT"),
];

#[derive(Serialize)]
pub(super) struct WrittenRunner<'a> {
    id: &'a str,
    payer: String,
    run_id: &'a str,
    attempt_id: &'a str,
    placement: &'static str,
    body: &'a str,
    registered_at: i64,
}

impl<'a> WrittenRunner<'a> {
    pub fn of(row: &'a NewRunnerRow) -> WrittenRunner<'a> {
        WrittenRunner {
            id: &row.id,
            payer: Payer::tenant(&row.tenant).key().to_owned(),
            run_id: &row.run_id,
            attempt_id: &row.attempt,
            placement: row.placement,
            body: &row.body,
            registered_at: row.registered_at,
        }
    }
}

/// What is in the store and cannot be read.
pub(super) fn damaged(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}
