//! What a runner decides. It hears and says nothing itself: the driver gives it news with the time, and carries out its actions in their order.

mod action;
mod hear;
#[cfg(test)]
mod tests;
mod turn;

pub(super) use action::{WorkAction, WorkEnd};

use crate::back_end::{BackEndError, BackEndEvent, PastTurn};
use crate::work::turn_end::{EndReason, TurnReport};
use proto_schemas::requests::run::{CommandRecord, RunEventType};
use proto_schemas::requests::runner::ReportedStatus;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;
use turn::TurnUnderWay;

/// Commands that wait here, in bytes. While more wait, no commands are asked for.
const MOST_WAITING: usize = 4 << 20;
/// How long a turn may take to end after it was asked to, before its program is ended.
const INTERRUPT_GRACE: Duration = Duration::from_secs(10);
/// How long a runner that was told to end may take for its last words.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// What does not change while a runner has its lease.
#[derive(Clone, Debug)]
pub(super) struct WorkRules {
    pub epoch: i64,
    /// The time of a turn.
    pub timeout: Duration,
    /// How long a runner without work stays.
    pub idle: Duration,
    /// The command that the runner was started for. If it has ended meanwhile, there is nothing to stay for.
    pub started_for: Option<String>,
    /// Whether questions are passed to the client.
    pub passes_questions: bool,
}

/// Where the work stands.
#[derive(Debug)]
pub(super) struct WorkState {
    rules: WorkRules,
    /// Turns that wait for the one under way.
    waiting: VecDeque<CommandRecord>,
    waiting_bytes: usize,
    turn: Option<TurnUnderWay>,
    /// Steers and interrupts that this runner is about to take.
    controls: BTreeMap<String, CommandRecord>,
    has_polled: bool,
    idle_since: Instant,
    is_releasing: bool,
    /// Until when a runner that was told to end may stay.
    stop_until: Option<Instant>,
    actions: VecDeque<WorkAction>,
}

impl WorkState {
    pub fn new(rules: WorkRules, now: Instant) -> WorkState {
        WorkState {
            rules,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            turn: None,
            controls: BTreeMap::new(),
            has_polled: false,
            idle_since: now,
            is_releasing: false,
            stop_until: None,
            actions: VecDeque::new(),
        }
    }

    /// What is to be done next.
    pub fn next_action(&mut self) -> Option<WorkAction> {
        self.actions.pop_front()
    }

    /// Whether there is space for more commands.
    pub fn wants_commands(&self) -> bool {
        self.waiting_bytes < MOST_WAITING
    }

    /// When the state has to look at the time again.
    pub fn due_at(&self) -> Option<Instant> {
        let idle = (self.has_polled && !self.has_work() && !self.is_releasing)
            .then(|| self.idle_since + self.rules.idle);
        let turn = self.turn.as_ref().and_then(TurnUnderWay::due_at);
        [idle, turn, self.stop_until].into_iter().flatten().min()
    }

    /// Time has passed. `is_told`: everything that was said has reached the manager.
    pub fn tick(&mut self, now: Instant, is_told: bool) {
        if let Some(turn) = &mut self.turn {
            if turn.kill_at.is_some_and(|at| at <= now) {
                turn.kill_at = None;
                self.actions.push_back(WorkAction::StopBackEnd);
            } else if turn.deadline.is_some_and(|at| at <= now) {
                turn.deadline = None;
                self.end_turn(EndReason::TimedOut, now);
            }
        }
        if self.has_work() || !is_told {
            self.idle_since = now;
        }
        self.leave_if_idle(now, is_told);
        if self.stop_until.is_some_and(|until| until <= now) {
            self.end(WorkEnd::Stopped);
        }
    }

    fn has_work(&self) -> bool {
        self.turn.is_some() || !self.waiting.is_empty() || !self.controls.is_empty()
    }

    fn leave_if_idle(&mut self, now: Instant, is_told: bool) {
        let is_idle = self.has_polled && now >= self.idle_since + self.rules.idle;
        let leaves = is_idle || self.stop_until.is_some();
        if leaves && is_told && !self.has_work() && !self.is_releasing {
            self.is_releasing = true;
            self.actions.push_back(WorkAction::Release);
        }
    }

    /// The runner was told to end. What waits is left to another one.
    pub fn stop(&mut self, now: Instant) {
        self.stop_until = Some(now + STOP_GRACE);
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.end_turn(EndReason::Stopped, now);
    }

    /// Something happened in the back end. It is in the log already, but for the end of a turn.
    pub fn happened(&mut self, event: &BackEndEvent, now: Instant) {
        match event {
            BackEndEvent::Ended(end) => self.turn_ended(end.clone(), now),
            BackEndEvent::Asked(question) => self.asked(&question.approval_id),
            BackEndEvent::Partial { .. }
            | BackEndEvent::Message { .. }
            | BackEndEvent::Written { .. }
            | BackEndEvent::Tool(_)
            | BackEndEvent::Stage { .. }
            | BackEndEvent::Thread { .. }
            | BackEndEvent::Status { .. }
            | BackEndEvent::TurnBegun { .. }
            | BackEndEvent::Reasoning { .. }
            | BackEndEvent::Plan(_)
            | BackEndEvent::Diff { .. }
            | BackEndEvent::Refused { .. }
            | BackEndEvent::Error { .. } => {}
        }
    }

    /// What the back end knows of a turn that an earlier runner began: nothing is run twice.
    pub fn past_turn(&mut self, command_id: String, past: PastTurn) {
        let report = match past {
            PastTurn::Completed { reply } => {
                if let Some(text) = reply {
                    let payload = json!({ "text": text, "final": true, "replyAuthority": true });
                    self.append(Some(command_id.clone()), RunEventType::AssistantMessage, payload);
                }
                TurnReport { status: ReportedStatus::Completed, failure_kind: None, message: None }
            }
            PastTurn::NotProven { why } => TurnReport::failed("backend-failed", why),
        };
        self.actions.push_back(WorkAction::Report { command_id, report });
    }

    /// Whether the back end has taken the guidance.
    pub fn steered(&mut self, command_id: String, target: &str, taken: Result<(), BackEndError>) {
        let mut payload =
            json!({ "targetCommandId": target, "runnerAcked": true, "backendAccepted": taken.is_ok() });
        let report = match taken {
            Ok(()) => TurnReport { status: ReportedStatus::Completed, failure_kind: None, message: None },
            Err(error) => {
                payload["error"] = error.message.as_str().into();
                TurnReport::of(ReportedStatus::Blocked, error.failure_kind, error.message)
            }
        };
        self.append(Some(command_id.clone()), RunEventType::SteerDelivery, payload);
        self.actions.push_back(WorkAction::Report { command_id, report });
    }

    fn append(&mut self, command_id: Option<String>, kind: RunEventType, payload: serde_json::Value) {
        self.actions.push_back(WorkAction::Append { command_id, kind, payload });
    }

    fn end(&mut self, end: WorkEnd) {
        self.actions.push_back(WorkAction::End(end));
    }
}
