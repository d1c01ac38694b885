//! What came out of a command, from the events of its run: a fold that reads each event once and holds a bounded part of them.

mod answer;
#[cfg(test)]
mod tests;
mod tools;

use super::liveness::{LeaseFacts, LivenessFacts, SeenActivity, liveness};
use crate::redact::redact_text;
use answer::AnswerChoice;
use proto_schemas::requests::run::{
    ArtifactSummary, CommandState, CommandType, RunBlocker, RunEventType, RunResult, RunStatus,
    SteerDelivery, TerminalSource, TerminalStatus,
};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::VecDeque;
use tools::ToolCallCounts;

/// How many events with artifacts are named.
const SEQS: usize = 20;
/// How many open questions are remembered.
const APPROVALS: usize = 64;
const STEER_NOTE: &str = "a completed steer says that its text was delivered; it says nothing about later output of the target command";

/// An event of the log as the fold reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoldedEvent<'a> {
    pub seq: i64,
    pub kind: RunEventType,
    pub command_id: Option<&'a str>,
    pub attempt_id: Option<&'a str>,
    /// JSON, which is read only where the event matters.
    pub payload: &'a str,
    pub created_at: i64,
}

/// What the rows of the run and of the command say.
#[derive(Clone, Debug)]
pub(crate) struct ResultFacts<'a> {
    pub run_id: &'a str,
    pub run_status: RunStatus,
    pub run_failure: FailureFacts<'a>,
    pub command: Option<CommandFacts<'a>>,
    /// The newest event of the run.
    pub last_seq: i64,
    /// Whether there are more events than are read for one result.
    pub capped: bool,
    /// `None`: no runner has had one, or it was released.
    pub lease: Option<LeaseFacts<'a>>,
    pub heartbeat_at: Option<i64>,
    pub now: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct CommandFacts<'a> {
    pub command_id: &'a str,
    pub kind: CommandType,
    pub state: CommandState,
    pub failure: FailureFacts<'a>,
    pub target_id: Option<&'a str>,
    /// Whether a runner has acknowledged it.
    pub acknowledged: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FailureFacts<'a> {
    pub kind: Option<&'a str>,
    pub message: Option<&'a str>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ResultFold {
    /// The command whose events count; without one, all of the run do.
    scope: Option<String>,
    count: i64,
    last_seq: i64,
    scoped_count: i64,
    scoped_last_seq: i64,
    attempt_id: Option<String>,
    answer: AnswerChoice,
    tools: ToolCallCounts,
    artifacts: ArtifactSummary,
    artifact_seqs: VecDeque<i64>,
    approvals: VecDeque<String>,
    seen: SeenActivity,
    error: Option<RunFailure>,
    /// What comes after it is counted, and changes nothing else.
    terminal: Option<TerminalEvent>,
    delivery: SteerOutcome,
}

/// What happened to guidance on its way.
#[derive(Clone, Debug, Default)]
struct SteerOutcome {
    /// Whether anything was said about it: what the target does before that is no answer to it.
    told: bool,
    runner_acked: bool,
    backend_accepted: bool,
    target_id: Option<String>,
    target_activity: bool,
}

#[derive(Clone, Debug, Default)]
struct RunFailure {
    kind: Option<String>,
    message: Option<String>,
}

#[derive(Clone, Debug)]
struct TerminalEvent {
    status: TerminalStatus,
    failure: RunFailure,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorPayload<'a> {
    #[serde(borrow)]
    failure_kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct TerminalPayload {
    status: TerminalStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutputPayload {
    output_bytes: Option<i64>,
    output_truncated: Option<bool>,
}

#[derive(Deserialize)]
struct PhasePayload<'a> {
    #[serde(borrow)]
    phase: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApprovalPayload<'a> {
    #[serde(borrow)]
    approval_id: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryPayload<'a> {
    #[serde(borrow)]
    target_command_id: Option<Cow<'a, str>>,
    runner_acked: Option<bool>,
    backend_accepted: Option<bool>,
}

fn read<'a, T: Deserialize<'a>>(event: &FoldedEvent<'a>) -> Option<T> {
    serde_json::from_str(event.payload).ok()
}

impl ResultFold {
    /// For the events of a command; without one, for all events of a run.
    pub fn new(scope: Option<&str>) -> ResultFold {
        ResultFold { scope: scope.map(str::to_owned), ..ResultFold::default() }
    }

    /// The command that guidance was for, as its row says: the event of its delivery need not name it.
    pub fn targets(&mut self, target: Option<&str>) {
        if self.delivery.target_id.is_none() {
            self.delivery.target_id = target.map(str::to_owned);
        }
    }

    /// About how many bytes it holds.
    pub fn bytes(&self) -> usize {
        let approvals: usize = self.approvals.iter().map(String::len).sum();
        size_of::<ResultFold>() + self.answer.bytes() + self.tools.bytes() + approvals
    }

    /// Every event of the run, in the order of their seqs.
    pub fn push(&mut self, event: &FoldedEvent<'_>) {
        self.count += 1;
        self.last_seq = event.seq;
        self.seen.last_event_at = Some(event.created_at);
        let scoped = self.scope.is_none() || self.scope.as_deref() == event.command_id;
        if scoped {
            self.scoped_count += 1;
            self.scoped_last_seq = event.seq;
            self.seen.last_command_event_at = Some(event.created_at);
            if let Some(attempt) =
                event.attempt_id.filter(|attempt| self.attempt_id.as_deref() != Some(attempt))
            {
                self.attempt_id = Some(attempt.to_owned());
            }
            if self.terminal.is_none() {
                self.push_scoped(event);
            }
        } else if event.command_id.is_none() {
            self.push_of_run(event);
        } else if self.delivery.told && self.delivery.target_id.as_deref() == event.command_id {
            self.delivery.target_activity |=
                !matches!(event.kind, RunEventType::TerminalStatus | RunEventType::RunnerStatus);
        }
    }

    fn push_scoped(&mut self, event: &FoldedEvent<'_>) {
        match event.kind {
            RunEventType::AssistantMessage => self.answer.push(event.seq, event.payload),
            RunEventType::CommandOutput => self.output(event),
            RunEventType::Diff => {
                self.artifacts.diff_count += 1;
                self.has_artifact(event.seq);
            }
            RunEventType::Error => {
                self.error = read::<ErrorPayload<'_>>(event).map(RunFailure::from);
            }
            RunEventType::TerminalStatus => self.terminal_status(event),
            RunEventType::SteerDelivery => self.steer_delivery(event),
            RunEventType::ApprovalRequest => self.asked(event),
            RunEventType::ToolCall
            | RunEventType::Reasoning
            | RunEventType::Plan
            | RunEventType::BackendStatus
            | RunEventType::RunnerStatus
            | RunEventType::ApprovalResolved => {}
        }
        match event.kind {
            RunEventType::ToolCall => self.seen.after_tool = self.tools.push(event.payload),
            RunEventType::AssistantMessage
            | RunEventType::Reasoning
            | RunEventType::Plan
            | RunEventType::ApprovalRequest
            | RunEventType::Error => self.seen.after_tool = false,
            // The output of a tool and the diff that it leaves may come after its end.
            RunEventType::CommandOutput
            | RunEventType::Diff
            | RunEventType::RunnerStatus
            | RunEventType::SteerDelivery
            | RunEventType::TerminalStatus => {}
            RunEventType::BackendStatus | RunEventType::ApprovalResolved => self.push_of_run(event),
        }
    }

    /// Events that may belong to the whole run.
    fn push_of_run(&mut self, event: &FoldedEvent<'_>) {
        match event.kind {
            RunEventType::BackendStatus => {
                let phase = read::<PhasePayload<'_>>(event).and_then(|payload| payload.phase);
                self.seen.transport_closed = phase.is_some_and(|phase| is_closed(&phase));
            }
            RunEventType::ApprovalResolved => {
                let Some(answered) = read::<ApprovalPayload<'_>>(event) else { return };
                self.approvals.retain(|open| *open != answered.approval_id);
            }
            _ => {}
        }
    }

    fn output(&mut self, event: &FoldedEvent<'_>) {
        let output = read::<OutputPayload>(event);
        let artifacts = &mut self.artifacts;
        artifacts.output_count += 1;
        if let Some(output) = output {
            let bytes = output.output_bytes.unwrap_or(0).max(0);
            artifacts.output_bytes = artifacts.output_bytes.saturating_add(bytes);
            artifacts.output_truncated |= output.output_truncated == Some(true);
        }
        self.has_artifact(event.seq);
    }

    fn has_artifact(&mut self, seq: i64) {
        if self.artifact_seqs.len() == SEQS {
            self.artifact_seqs.pop_front();
        }
        self.artifact_seqs.push_back(seq);
    }

    fn terminal_status(&mut self, event: &FoldedEvent<'_>) {
        let Some(TerminalPayload { status }) = read(event) else { return };
        let failure = read::<ErrorPayload<'_>>(event).map(RunFailure::from).unwrap_or_default();
        self.terminal = Some(TerminalEvent { status, failure });
    }

    fn steer_delivery(&mut self, event: &FoldedEvent<'_>) {
        let Some(payload) = read::<DeliveryPayload<'_>>(event) else { return };
        let delivery = &mut self.delivery;
        delivery.told = true;
        delivery.runner_acked |= payload.runner_acked == Some(true);
        delivery.backend_accepted |= payload.backend_accepted == Some(true);
        if let Some(target) = payload.target_command_id {
            delivery.target_id = Some(target.into_owned());
        }
    }

    fn asked(&mut self, event: &FoldedEvent<'_>) {
        let Some(question) = read::<ApprovalPayload<'_>>(event) else { return };
        if self.approvals.iter().any(|open| *open == question.approval_id) {
            return;
        }
        if self.approvals.len() == APPROVALS {
            self.approvals.pop_front();
        }
        self.approvals.push_back(question.approval_id.into_owned());
    }

    /// What the events say of what the command waits for.
    pub fn seen(&self) -> SeenActivity {
        SeenActivity {
            open_tool: self.tools.any_open(),
            open_approval: self.approvals.front().cloned(),
            ..self.seen.clone()
        }
    }

    pub fn finish(self, facts: &ResultFacts<'_>) -> RunResult {
        let seen = self.seen();
        let (terminal_status, terminal_source) = self.ended(facts);
        let failure = self.failure(facts, terminal_status, terminal_source);
        let steer_delivery = self.delivered(facts);
        let response = self.answer.chosen();
        let command = facts.command.as_ref();
        let last_seq = facts.last_seq.max(self.last_seq);
        let status = match (terminal_status, command) {
            (Some(status), _) => word(&status),
            (None, Some(command)) => word(&command.state),
            (None, None) => word(&facts.run_status),
        };
        RunResult {
            run_id: facts.run_id.to_owned(),
            command_id: command.map(|command| command.command_id.to_owned()),
            attempt_id: self.attempt_id,
            status,
            terminal_status,
            terminal_source,
            completed: terminal_status == Some(TerminalStatus::Completed),
            reply: response.as_ref().map(|response| response.text.clone()).filter(|text| !text.is_empty()),
            final_assistant_seq: response.as_ref().map(|response| response.seq),
            final_assistant_source: response.as_ref().map(|response| response.source),
            final_assistant_text_truncated: response.as_ref().is_some_and(|response| response.text_truncated),
            final_assistant_output_truncated: response
                .as_ref()
                .is_some_and(|response| response.output_truncated),
            final_response: response,
            blocker: failure
                .kind
                .clone()
                .map(|failure_kind| RunBlocker { failure_kind, message: failure.message.clone() }),
            failure_kind: failure.kind,
            failure_message: failure.message,
            last_seq,
            event_count: self.count,
            events_capped: facts.capped,
            next_after_seq: self.last_seq,
            scoped_last_seq: self.scoped_last_seq,
            scoped_event_count: self.scoped_count,
            artifact_summary: ArtifactSummary { seqs: self.artifact_seqs.into(), ..self.artifacts },
            tool_call_summary: self.tools.summary(),
            liveness: liveness(
                &LivenessFacts {
                    run_id: facts.run_id,
                    run_ended: terminal_of_run(facts.run_status).is_some(),
                    command: command.map(|command| (command.command_id, command.state)),
                    lease: facts.lease,
                    heartbeat_at: facts.heartbeat_at,
                    last_seq,
                    seen: &seen,
                },
                facts.now,
            ),
            steer_delivery,
        }
    }

    /// How it has ended, and what says so: the row of the command before its event, and both before the row of the run.
    fn ended(&self, facts: &ResultFacts<'_>) -> (Option<TerminalStatus>, TerminalSource) {
        let of_command = facts.command.as_ref().and_then(|command| terminal_of_command(command.state));
        let of_event = self.terminal.as_ref().map(|event| event.status);
        let of_run = terminal_of_run(facts.run_status);
        let known = [
            (of_command, TerminalSource::CommandRecord),
            (of_event, TerminalSource::Event),
            (of_run, TerminalSource::RunRecord),
        ];
        known.into_iter().find(|(status, _)| status.is_some()).unwrap_or((None, TerminalSource::Nothing))
    }

    /// Why it has not completed, as its end says; where that does not say why, the last error does.
    fn failure(
        &self,
        facts: &ResultFacts<'_>,
        status: Option<TerminalStatus>,
        source: TerminalSource,
    ) -> RunFailure {
        let Some(status) = status.filter(|status| *status != TerminalStatus::Completed) else {
            return RunFailure::default();
        };
        let of_event = self.terminal.as_ref().map(|event| event.failure.facts()).unwrap_or_default();
        let of_error = self.error.as_ref().map(RunFailure::facts).unwrap_or_default();
        let of_command = facts.command.as_ref().map(|command| command.failure).unwrap_or_default();
        let known = match source {
            TerminalSource::CommandRecord => [of_command, of_event, of_error],
            TerminalSource::Event => [of_event, of_error, FailureFacts::default()],
            TerminalSource::RunRecord | TerminalSource::Nothing => {
                [facts.run_failure, of_error, FailureFacts::default()]
            }
        };
        let unknown = match status {
            TerminalStatus::Cancelled => "cancelled",
            TerminalStatus::Failed | TerminalStatus::Blocked | TerminalStatus::Completed => "backend-failed",
        };
        let message = known.iter().find_map(|failure| failure.message);
        RunFailure {
            kind: Some(known.iter().find_map(|failure| failure.kind).unwrap_or(unknown).to_owned()),
            message: message.map(|message| redact_text(message).into_owned()),
        }
    }

    fn delivered(&self, facts: &ResultFacts<'_>) -> Option<SteerDelivery> {
        let command = facts.command.as_ref().filter(|command| command.kind == CommandType::Steer)?;
        Some(SteerDelivery {
            runner_acked: self.delivery.runner_acked || command.acknowledged,
            backend_accepted: self.delivery.backend_accepted,
            target_command_id: self
                .delivery
                .target_id
                .clone()
                .or_else(|| command.target_id.map(str::to_owned)),
            target_activity_observed: self.delivery.target_activity,
            note: STEER_NOTE.to_owned(),
        })
    }
}

impl RunFailure {
    fn facts(&self) -> FailureFacts<'_> {
        FailureFacts { kind: self.kind.as_deref(), message: self.message.as_deref() }
    }
}

impl From<ErrorPayload<'_>> for RunFailure {
    fn from(payload: ErrorPayload<'_>) -> RunFailure {
        RunFailure {
            kind: payload.failure_kind.map(Cow::into_owned),
            message: payload.message.map(Cow::into_owned),
        }
    }
}

/// Whether a back end with this status is no longer reached: `transport-closed`, `disconnected`.
fn is_closed(phase: &str) -> bool {
    let phase = phase.to_ascii_lowercase().replace('_', "-");
    ["transport-closed", "transport-disconnected", "transport-lost", "disconnected", "closed"]
        .contains(&&*phase)
}

fn terminal_of_command(state: CommandState) -> Option<TerminalStatus> {
    match state {
        CommandState::Pending | CommandState::Acknowledged | CommandState::Running => None,
        CommandState::Completed => Some(TerminalStatus::Completed),
        CommandState::Failed => Some(TerminalStatus::Failed),
        CommandState::Blocked => Some(TerminalStatus::Blocked),
        CommandState::Cancelled => Some(TerminalStatus::Cancelled),
    }
}

fn terminal_of_run(status: RunStatus) -> Option<TerminalStatus> {
    match status {
        RunStatus::Pending | RunStatus::Claimed | RunStatus::Running => None,
        RunStatus::Completed => Some(TerminalStatus::Completed),
        RunStatus::Failed => Some(TerminalStatus::Failed),
        RunStatus::Blocked => Some(TerminalStatus::Blocked),
        RunStatus::Cancelled => Some(TerminalStatus::Cancelled),
    }
}

/// The word of the protocol.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
