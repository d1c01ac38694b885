//! Rows as callers see them, with secrets redacted.

use crate::RunService;
use crate::error::Error;
use crate::ids::event_id;
use crate::model::fixed::RunFixed;
use crate::model::run::{ApprovalRow, JobRow, LeaseState, RunRow};
use crate::redact::redact_json;
use crate::store::{CommandRead, PagedEvent, PagedEvents, RunFacts};
use kernel::{RpcError, iso_ms};
use proto_schemas::requests::run::{
    CommandRecord, LauncherKind, RunApproval, RunEvent, RunEventPage, RunEventType, RunLease, RunRecord,
    RunnerJob, RunnerJobPhase, RunnerJobPoll,
};
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde_json::value::RawValue;

/// What a question says of itself. What may be absent may be `null`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct AskedQuestion {
    reason: String,
    message: Option<String>,
    call_id: Option<String>,
    response_schema: Option<Box<RawValue>>,
    options: Option<Vec<String>>,
}

impl RunService {
    pub(crate) fn run_record(&self, facts: &RunFacts) -> Result<RunRecord, Error> {
        let fixed: RunFixed = serde_json::from_str(&facts.fixed).map_err(RpcError::internal)?;
        let row = &facts.row;
        Ok(RunRecord {
            run_id: row.id.clone(),
            tenant_id: row.tenant.clone(),
            project_id: fixed.project_id,
            workspace_ref: redacted(&fixed.workspace_ref)?,
            provider_id: fixed.provider_id,
            backend_profile: fixed.backend_profile,
            execution_policy: fixed.execution_policy,
            trace_sink: fixed.trace_sink.as_deref().map(redacted).transpose()?,
            session_ref: fixed.session_ref,
            resource_bundle_ref: fixed.resource_bundle_ref.as_deref().map(redacted).transpose()?,
            status: row.status,
            terminal_status: row.terminal(),
            failure_kind: row.terminal().and(row.failure.kind.clone()),
            failure_message: row.terminal().and(row.failure.message.as_deref()).map(redacted_text),
            lease: self.lease_of(row),
            last_seq: row.last_seq,
            created_at: iso_ms(row.created_at),
            updated_at: iso_ms(row.updated_at),
            cancel_requested_at: row.cancel_at.map(iso_ms),
        })
    }

    /// Who works on a run; nobody on one that has ended.
    fn lease_of(&self, row: &RunRow) -> Option<RunLease> {
        let held = row.ended_at.is_none() && !row.lease.released;
        let LeaseState { runner: Some(runner), attempt, epoch, .. } = &row.lease else { return None };
        held.then(|| RunLease {
            runner_id: runner.clone(),
            attempt_id: attempt.clone().unwrap_or_default(),
            epoch: *epoch,
            expires_at: iso_ms(row.lease.until),
        })
    }

    pub(crate) fn job_shown(&self, job: &JobRow, run: &RunRow) -> RunnerJob {
        let (base, command) = (format!("/api/v1/runs/{}", job.run_id), &job.command_id);
        let launcher = launcher_word(job.launcher);
        RunnerJob {
            runner_job_id: job.id.clone(),
            run_id: job.run_id.clone(),
            command_id: command.clone(),
            attempt_id: job.attempt.clone(),
            runner_id: job.runner.clone(),
            launcher: job.launcher,
            job_name: format!("{launcher}-{}", job.attempt),
            namespace: launcher.to_owned(),
            pod_name: None,
            pid: job.process.map(|process| process.pid),
            isolation: job.isolation,
            log_ref: job.log_ref.clone(),
            phase: self.phase_of(job, run),
            idle_timeout_ms: job.idle_timeout_ms,
            created_at: iso_ms(job.created_at),
            poll: RunnerJobPoll {
                run: base.clone(),
                command: format!("{base}/commands/{command}"),
                events: format!("{base}/events"),
                result: format!("{base}/commands/{command}/result"),
                runner_job: format!("{base}/runner-jobs/{}", job.id),
            },
            runner_token: None,
            manager: None,
        }
    }

    /// What can be known of a runner that somebody else has started.
    fn phase_of(&self, job: &JobRow, run: &RunRow) -> RunnerJobPhase {
        let active = job.is_active(&run.lease, self.clock.now_ms(), self.started_at());
        match (job.ended_at, &job.runner) {
            (Some(_), Some(_)) if !job.failed => RunnerJobPhase::Succeeded,
            (Some(_), _) => RunnerJobPhase::Failed,
            (None, None) if active => RunnerJobPhase::Creating,
            (None, None) => RunnerJobPhase::Failed,
            (None, Some(_)) if active => RunnerJobPhase::Running,
            (None, Some(_)) => RunnerJobPhase::Unknown,
        }
    }
}

fn launcher_word(launcher: LauncherKind) -> &'static str {
    match launcher {
        LauncherKind::Local => "local",
        LauncherKind::External => "external",
        LauncherKind::Kubernetes => "kubernetes",
    }
}

/// A question with its answer, if it has one. One that cannot be read is shown without its words, so that it can be answered and does not
/// hide the others.
pub(crate) fn approval_shown(row: ApprovalRow) -> RunApproval {
    let question: AskedQuestion = serde_json::from_str(row.question.get()).unwrap_or_else(|error| {
        tracing::warn!("a question of {} cannot be read: {error}", row.run_id);
        AskedQuestion::default()
    });
    RunApproval {
        approval_id: row.id,
        run_id: row.run_id,
        command_id: Some(row.command_id),
        reason: question.reason,
        message: question.message,
        call_id: question.call_id,
        response_schema: question.response_schema,
        options: question.options.unwrap_or_default(),
        decision: row.decision,
        payload: row.answer,
        by: row.answered_by,
        created_at: iso_ms(row.created_at),
        expires_at: Some(iso_ms(row.expires_at)),
    }
}

/// A command. Only the runner that works on it sees its payload as it came.
pub(crate) fn command_record(facts: CommandRead, whole: bool) -> Result<CommandRecord, Error> {
    let CommandRead { row, payload } = facts;
    let payload = if whole { payload } else { redacted(&payload)? };
    Ok(CommandRecord {
        terminal_status: row.terminal(),
        failure_kind: row.terminal().and(row.failure.kind.clone()),
        failure_message: row.terminal().and(row.failure.message.as_deref()).map(redacted_text),
        command_id: row.id,
        run_id: row.run_id,
        seq: row.seq,
        kind: row.kind,
        state: row.state,
        payload,
        payload_hash: row.payload_hash,
        idempotency_key: row.key,
        target_command_id: row.target,
        acknowledged_at: row.acknowledged_at.map(iso_ms),
        acknowledged_epoch: row.acknowledged_epoch,
        created_at: iso_ms(row.created_at),
        updated_at: iso_ms(row.updated_at),
        cancel_requested_at: row.cancel_at.map(iso_ms),
    })
}

pub(crate) fn redacted(json: &RawValue) -> Result<Box<RawValue>, Error> {
    let redacted = redact_json(json).map_err(|error| Error::Other(RpcError::internal(error)))?;
    Ok(redacted.into_owned())
}

pub(crate) fn redacted_text(text: &str) -> String {
    crate::redact::redact_text(text).into_owned()
}

/// A page of events as everybody sees it: they were redacted before they were stored.
pub(crate) fn events_shown(run_id: &str, page: PagedEvents) -> Result<RunEventPage, RpcError> {
    let PagedEvents { events, last_seq, next_after_seq } = page;
    let events = events.into_iter().map(|event| event_shown(run_id, event));
    let events = events.collect::<Result<_, anyhow::Error>>().map_err(RpcError::internal)?;
    Ok(RunEventPage { events, last_seq, next_after_seq, has_more: next_after_seq < last_seq })
}

fn event_shown(run_id: &str, event: PagedEvent) -> anyhow::Result<RunEvent> {
    Ok(RunEvent {
        event_id: event_id(run_id, event.seq),
        run_id: run_id.to_owned(),
        seq: event.seq,
        kind: kind_of(&event.kind)?,
        command_id: event.command_id,
        attempt_id: event.attempt_id,
        payload: RawValue::from_string(event.payload)?,
        created_at: iso_ms(event.created_at),
    })
}

pub(crate) fn kind_of(word: &str) -> sqlx::Result<RunEventType> {
    let word: StrDeserializer<'_, ValueError> = word.into_deserializer();
    RunEventType::deserialize(word).map_err(|error| sqlx::Error::Decode(error.into()))
}

pub(crate) fn kind_word(kind: RunEventType) -> String {
    serde_json::to_value(kind).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}
