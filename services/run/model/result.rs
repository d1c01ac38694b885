//! What came out of a command: a fold over the events of its run, which holds no more of a long log than of a short one.

use super::decide::state_word;
use super::liveness::{EventTrace, liveness};
use super::redact::MOST_TEXT;
use super::run::{CommandRow, RunRow};
use proto_schemas::requests::run::{
    ArtifactSummary, CommandState, CommandType, FinalResponse, FinalSource, RunBlocker, RunEventType, RunResult,
    RunStatus, SteerDelivery, TerminalSource, TerminalStatus, ToolCallItem, ToolCallSummary,
};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

/// The newest calls of tools that a result lists, and how long their texts may be.
const MOST_ITEMS: usize = 40;
const MOST_COMMAND: usize = 600;
const MOST_WORD: usize = 200;
/// Messages that are being written at once, and calls that are open at once.
const MOST_OPEN: usize = 64;
/// Different statuses and exit codes that are counted apart.
const MOST_COUNTED: usize = 32;
/// Events with outputs that a result points at.
const MOST_SEQS: usize = 20;

/// An event of the log, as the store has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoldedEvent<'a> {
    pub seq: i64,
    pub kind: RunEventType,
    pub command_id: Option<&'a str>,
    pub attempt_id: Option<&'a str>,
    pub payload: &'a str,
    pub created_at: i64,
}

/// What the rows say when the log was read.
pub(crate) struct ResultFacts<'a> {
    pub run: &'a RunRow,
    pub command: Option<&'a CommandRow>,
    pub events_capped: bool,
    pub next_after_seq: i64,
    pub now: i64,
    pub started_at: i64,
}

/// What is read of payloads; each type has some of these.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Payload<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(rename = "final")]
    is_final: Option<bool>,
    reply_authority: Option<bool>,
    partial: Option<bool>,
    text_truncated: Option<bool>,
    output_truncated: Option<bool>,
    item_id: Option<String>,
    output_bytes: Option<i64>,
    call_id: Option<String>,
    method: Option<String>,
    tool_name: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    status: Option<String>,
    exit_code: Option<i64>,
    command: Option<String>,
    phase: Option<String>,
    approval_id: Option<String>,
    target_command_id: Option<String>,
    backend_accepted: Option<bool>,
    scope: Option<String>,
}

/// A message of the assistant that may be the answer.
#[derive(Clone, Debug)]
struct AssistantText {
    item: Option<String>,
    seq: i64,
    text: String,
    is_final: bool,
    reply_authority: bool,
    text_truncated: bool,
    output_truncated: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ResultFold {
    scope: Option<String>,
    count: i64,
    last_seq: i64,
    scoped_count: i64,
    scoped_last_seq: i64,
    attempt: Option<String>,
    authoritative: Option<AssistantText>,
    whole: Option<AssistantText>,
    /// Messages of which only parts have come, oldest first.
    partial: VecDeque<AssistantText>,
    ended: Option<TerminalStatus>,
    artifacts: ArtifactSummary,
    tools: ToolCallSummary,
    open_tools: VecDeque<ToolCallItem>,
    steer: Option<(Option<String>, bool, i64)>,
    target_seen: bool,
    trace: EventTrace,
}

impl ResultFold {
    /// Of one command, or of a run that has none.
    pub fn new(scope: Option<&str>) -> ResultFold {
        ResultFold { scope: scope.map(str::to_owned), ..ResultFold::default() }
    }

    pub fn push(&mut self, event: &FoldedEvent<'_>) {
        self.count += 1;
        self.last_seq = event.seq;
        self.trace.last_event_at = Some(event.created_at);
        if let (Some((Some(target), _, since)), Some(command)) = (&self.steer, event.command_id) {
            self.target_seen |= target == command && event.seq > *since;
        }
        let of_run = event.command_id.is_none();
        if !of_run && event.command_id != self.scope.as_deref() {
            return;
        }
        let payload: Payload<'_> = serde_json::from_str(event.payload).unwrap_or_default();
        if of_run {
            // What belongs to no command tells how the run does.
            self.trace_status(event, &payload);
            return;
        }
        self.scoped_count += 1;
        self.scoped_last_seq = event.seq;
        self.trace.last_scoped_at = Some(event.created_at);
        if let Some(attempt) = event.attempt_id {
            self.attempt = Some(attempt.to_owned());
        }
        self.push_scoped(event, payload);
    }

    fn push_scoped(&mut self, event: &FoldedEvent<'_>, payload: Payload<'_>) {
        match event.kind {
            RunEventType::AssistantMessage if self.ended.is_none() => self.say(event.seq, payload),
            RunEventType::CommandOutput => {
                let bytes = payload.output_bytes.or(payload.text.map(|text| length(&text)));
                self.artifacts.output_count += 1;
                self.artifacts.output_bytes += bytes.unwrap_or(0).max(0);
                self.artifacts.output_truncated |= payload.output_truncated == Some(true);
                self.refer(event.seq);
            }
            RunEventType::Diff => {
                self.artifacts.diff_count += 1;
                self.refer(event.seq);
            }
            RunEventType::ToolCall => self.call_tool(event, payload),
            RunEventType::SteerDelivery => {
                let accepted = payload.backend_accepted == Some(true);
                self.steer = Some((payload.target_command_id, accepted, event.seq));
            }
            RunEventType::ApprovalRequest => {
                if let Some(id) = payload.approval_id
                    && self.trace.approvals.len() < MOST_OPEN
                {
                    self.trace.approvals.push(id);
                }
            }
            RunEventType::ApprovalResolved => {
                self.trace.approvals.retain(|open| Some(open) != payload.approval_id.as_ref());
            }
            RunEventType::TerminalStatus if payload.scope.as_deref() != Some("run") => {
                self.ended = payload.status.as_deref().and_then(terminal_of);
            }
            RunEventType::BackendStatus | RunEventType::RunnerStatus => self.trace_status(event, &payload),
            RunEventType::AssistantMessage
            | RunEventType::Reasoning
            | RunEventType::Plan
            | RunEventType::Error
            | RunEventType::TerminalStatus => {}
        }
    }

    fn trace_status(&mut self, event: &FoldedEvent<'_>, payload: &Payload<'_>) {
        if event.kind == RunEventType::BackendStatus {
            let phase = payload.phase.as_deref().unwrap_or_default();
            self.trace.transport_closed =
                phase.contains("transport") && (phase.contains("closed") || phase.contains("disconnected"));
        }
    }

    fn say(&mut self, seq: i64, payload: Payload<'_>) {
        let text = payload.text.unwrap_or_default();
        let said = |text: String| AssistantText {
            item: payload.item_id.clone(),
            seq,
            text,
            is_final: payload.is_final == Some(true),
            reply_authority: payload.reply_authority == Some(true),
            text_truncated: payload.text_truncated == Some(true),
            output_truncated: payload.output_truncated == Some(true),
        };
        if payload.partial == Some(true) {
            let open = self.partial.iter_mut().find(|open| open.item == payload.item_id);
            match open {
                Some(open) => {
                    open.seq = seq;
                    add_text(open, &text);
                }
                None => {
                    if self.partial.len() == MOST_OPEN {
                        self.partial.pop_front();
                    }
                    let mut open = said(String::new());
                    add_text(&mut open, &text);
                    self.partial.push_back(open);
                }
            }
            return;
        }
        self.partial.retain(|open| open.item.is_none() || open.item != payload.item_id);
        let message = said(text.into_owned());
        if message.is_final || message.reply_authority {
            self.authoritative = Some(message);
        } else if !message.text.is_empty() {
            self.whole = Some(message);
        }
    }

    fn call_tool(&mut self, event: &FoldedEvent<'_>, payload: Payload<'_>) {
        let cut = |text: Option<String>, most: usize| text.map(|text| text.chars().take(most).collect());
        let mut item = ToolCallItem {
            call_id: cut(payload.call_id, MOST_WORD),
            method: cut(payload.method, MOST_WORD),
            tool_name: cut(payload.tool_name, MOST_WORD),
            kind: cut(payload.kind, MOST_WORD),
            status: cut(payload.status, MOST_WORD),
            exit_code: payload.exit_code,
            command: cut(payload.command, MOST_COMMAND),
        };
        let ends = !matches!(item.status.as_deref(), None | Some("started" | "running" | "in_progress" | "inProgress"));
        let begun = self.open_tools.iter().position(|open| open.call_id == item.call_id);
        match begun.and_then(|at| self.open_tools.remove(at)) {
            // What the start has said stays where the end says nothing.
            Some(begun) => {
                item.method = item.method.or(begun.method);
                item.tool_name = item.tool_name.or(begun.tool_name);
                item.kind = item.kind.or(begun.kind);
                item.command = item.command.or(begun.command);
                let listed = self.tools.items.iter_mut().rev().find(|listed| listed.call_id == item.call_id);
                if let Some(listed) = listed {
                    *listed = item.clone();
                }
            }
            None => {
                self.tools.count += 1;
                if self.tools.items.len() == MOST_ITEMS {
                    self.tools.items.remove(0);
                }
                self.tools.items.push(item.clone());
            }
        }
        if ends {
            count(&mut self.tools.status_counts, item.status.as_deref().unwrap_or_default());
            if let Some(code) = item.exit_code {
                count(&mut self.tools.exit_code_counts, &code.to_string());
            }
            self.trace.tool_ended_at = Some(event.created_at);
        } else {
            if self.open_tools.len() == MOST_OPEN {
                self.open_tools.pop_front();
            }
            self.open_tools.push_back(item);
        }
    }

    fn refer(&mut self, seq: i64) {
        if self.artifacts.seqs.len() == MOST_SEQS {
            self.artifacts.seqs.remove(0);
        }
        self.artifacts.seqs.push(seq);
    }

    pub fn finish(mut self, facts: &ResultFacts<'_>) -> RunResult {
        for open in &self.open_tools {
            count(&mut self.tools.status_counts, open.status.as_deref().unwrap_or("started"));
        }
        self.trace.open_tools = self.open_tools.len();
        let (terminal, source) = self.terminal(facts);
        let chosen = self.chosen();
        let failure = match (facts.command, source) {
            (Some(command), TerminalSource::CommandRecord) => command.failure.clone(),
            (_, TerminalSource::RunRecord) => facts.run.failure.clone(),
            _ => super::run::Failure::default(),
        };
        let blocked = matches!(terminal, Some(TerminalStatus::Failed | TerminalStatus::Blocked));
        let blocker = blocked.then(|| RunBlocker {
            failure_kind: failure.kind.clone().unwrap_or_else(|| "backend-failed".to_owned()),
            message: failure.message.clone(),
        });
        let status = match facts.command {
            Some(command) => state_word(command.state),
            None => status_word(facts.run.status),
        };
        RunResult {
            run_id: facts.run.id.clone(),
            command_id: facts.command.map(|command| command.id.clone()),
            attempt_id: self.attempt.clone().or_else(|| facts.run.lease.attempt.clone()),
            status: status.to_owned(),
            terminal_status: terminal,
            terminal_source: source,
            completed: terminal == Some(TerminalStatus::Completed),
            reply: chosen.as_ref().map(|chosen| chosen.text.clone()).filter(|text| !text.is_empty()),
            final_assistant_seq: chosen.as_ref().map(|chosen| chosen.seq),
            final_assistant_source: chosen.as_ref().map(|chosen| chosen.source),
            final_assistant_text_truncated: chosen.as_ref().is_some_and(|chosen| chosen.text_truncated),
            final_assistant_output_truncated: chosen.as_ref().is_some_and(|chosen| chosen.output_truncated),
            final_response: chosen,
            failure_kind: failure.kind,
            failure_message: failure.message,
            blocker,
            last_seq: self.last_seq,
            event_count: self.count,
            events_capped: facts.events_capped,
            next_after_seq: facts.next_after_seq,
            scoped_last_seq: self.scoped_last_seq,
            scoped_event_count: self.scoped_count,
            liveness: liveness(&self.trace, facts),
            steer_delivery: self.steer_delivery(facts),
            artifact_summary: self.artifacts,
            tool_call_summary: self.tools,
        }
    }

    fn terminal(&self, facts: &ResultFacts<'_>) -> (Option<TerminalStatus>, TerminalSource) {
        if let Some(status) = facts.command.and_then(CommandRow::terminal) {
            return (Some(status), TerminalSource::CommandRecord);
        }
        if let Some(status) = self.ended {
            return (Some(status), TerminalSource::Event);
        }
        match facts.run.terminal() {
            Some(status) => (Some(status), TerminalSource::RunRecord),
            None => (None, TerminalSource::Nothing),
        }
    }

    /// What the back end has called its answer, or else the last that it has said.
    fn chosen(&self) -> Option<FinalResponse> {
        let shown = |said: &AssistantText, source| FinalResponse {
            text: said.text.clone(),
            seq: said.seq,
            source,
            is_final: said.is_final,
            reply_authority: said.reply_authority,
            text_truncated: said.text_truncated,
            output_truncated: said.output_truncated,
        };
        if let Some(said) = &self.authoritative {
            return Some(shown(said, FinalSource::Authoritative));
        }
        let partial = self.partial.iter().filter(|open| !open.text.is_empty());
        let last = partial.chain(&self.whole).max_by_key(|said| said.seq)?;
        Some(shown(last, FinalSource::FallbackLastAssistant))
    }

    fn steer_delivery(&self, facts: &ResultFacts<'_>) -> Option<SteerDelivery> {
        let command = facts.command.filter(|command| command.kind == CommandType::Steer)?;
        let (told, accepted) = match &self.steer {
            Some((target, accepted, _)) => (target.clone(), *accepted),
            None => (None, false),
        };
        Some(SteerDelivery {
            runner_acked: command.acknowledged_at.is_some(),
            backend_accepted: accepted,
            target_command_id: told.or_else(|| command.target.clone()),
            target_activity_observed: self.target_seen,
            note: "a completed steer says that the guidance was delivered, and nothing about later output of the target"
                .to_owned(),
        })
    }
}

/// A text grows up to its bound, and says when it would have grown further.
fn add_text(said: &mut AssistantText, text: &str) {
    let space = MOST_TEXT.saturating_sub(said.text.len());
    let taken = text.floor_char_boundary(space);
    said.text.push_str(&text[..taken]);
    said.text_truncated |= taken < text.len();
}

fn count(counts: &mut BTreeMap<String, i64>, word: &str) {
    let known = counts.contains_key(word) || counts.len() < MOST_COUNTED;
    *counts.entry(if known { word } else { "other" }.to_owned()).or_default() += 1;
}

fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

fn terminal_of(word: &str) -> Option<TerminalStatus> {
    match word {
        "completed" => Some(TerminalStatus::Completed),
        "failed" => Some(TerminalStatus::Failed),
        "blocked" => Some(TerminalStatus::Blocked),
        "cancelled" => Some(TerminalStatus::Cancelled),
        _ => None,
    }
}

pub(crate) fn status_word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Pending => "pending",
        RunStatus::Claimed => "claimed",
        RunStatus::Running => "running",
        RunStatus::Completed => state_word(CommandState::Completed),
        RunStatus::Failed => state_word(CommandState::Failed),
        RunStatus::Blocked => state_word(CommandState::Blocked),
        RunStatus::Cancelled => state_word(CommandState::Cancelled),
    }
}
