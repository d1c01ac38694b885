//! The turn under way: one at a time.

use super::{INTERRUPT_GRACE, STOP_GRACE, WorkAction, WorkState};
use crate::back_end::turn::turn_of;
use crate::back_end::{ApprovalAnswer, TurnEnd, TurnImage, TurnRequest, TurnStatus};
use crate::work::turn_end::{EndReason, report_of};
use proto_schemas::requests::run::{CommandRecord, RunApproval, RunEventType};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::time::Instant;

/// A turn from the moment in which this runner begins to take it.
#[derive(Debug)]
pub(super) struct TurnUnderWay {
    pub command_id: String,
    /// The manager has said that it is ours.
    is_taken: bool,
    /// What begins when its images are there.
    fetching: Option<TurnRequest>,
    /// Guidance that came before the turn has begun.
    held: Vec<CommandRecord>,
    /// Why it was told to end.
    reason: Option<EndReason>,
    /// It has ended without us: nothing is reported.
    is_over: bool,
    /// When its time is over.
    pub deadline: Option<Instant>,
    /// When its program is ended, because it has not ended by itself.
    pub kill_at: Option<Instant>,
    /// Questions without an answer.
    questions: BTreeSet<String>,
}

impl TurnUnderWay {
    fn new(command_id: String) -> TurnUnderWay {
        TurnUnderWay {
            command_id,
            is_taken: false,
            fetching: None,
            held: Vec::new(),
            reason: None,
            is_over: false,
            deadline: None,
            kill_at: None,
            questions: BTreeSet::new(),
        }
    }

    pub fn due_at(&self) -> Option<Instant> {
        [self.deadline, self.kill_at].into_iter().flatten().min()
    }

    pub fn takes_controls(&self) -> bool {
        self.is_taken && self.reason.is_none() && !self.is_over
    }

    pub fn is_fetching(&self) -> bool {
        self.fetching.is_some()
    }
}

impl WorkState {
    /// Takes the next turn, if none is under way.
    pub(super) fn begin_next(&mut self) {
        if self.turn.is_some() {
            return;
        }
        let Some(command) = self.waiting.pop_front() else { return };
        self.waiting_bytes -= command.payload.get().len();
        self.turn = Some(TurnUnderWay::new(command.command_id.clone()));
        self.actions.push_back(WorkAction::Acknowledge { command_id: command.command_id });
    }

    /// The turn is ours: it begins, unless it was told to end meanwhile.
    pub(super) fn turn_taken(&mut self, command: &CommandRecord, now: Instant) {
        let Some(turn) = &mut self.turn else { return };
        turn.is_taken = true;
        if turn.reason.is_some() {
            return self.turn_ended(TurnEnd::completed(), now);
        }
        turn.deadline = Some(now + self.rules.timeout);
        match turn_of(command) {
            Ok(asked) if asked.attachments.is_empty() => {
                self.actions.push_back(WorkAction::Begin(asked.request));
            }
            Ok(asked) => {
                let (command_id, attachments) = (asked.request.command_id.clone(), asked.attachments);
                turn.fetching = Some(asked.request);
                self.actions.push_back(WorkAction::Fetch { command_id, attachments });
            }
            Err(why) => self.turn_ended(TurnEnd::failed("schema-invalid", why), now),
        }
    }

    /// The images of the turn under way have come: it begins. Or why they do not come.
    pub fn fetched(&mut self, images: Result<Vec<TurnImage>, String>, now: Instant) {
        let Some(turn) = &mut self.turn else { return };
        let Some(request) = turn.fetching.take() else { return };
        match images {
            Ok(images) => {
                let held = std::mem::take(&mut turn.held);
                self.actions.push_back(WorkAction::Begin(TurnRequest { images, ..request }));
                self.let_go(held, now);
            }
            Err(why) => self.turn_ended(TurnEnd::failed("infra-failed", why), now),
        }
    }

    /// Guidance waits for a turn whose images are fetched: the back end does not know it yet.
    pub(super) fn hold(&mut self, control: CommandRecord) {
        let Some(turn) = &mut self.turn else { return };
        self.waiting_bytes += control.payload.get().len();
        turn.held.push(control);
    }

    /// The turn has begun, or has ended: then it is too late.
    fn let_go(&mut self, held: Vec<CommandRecord>, now: Instant) {
        for control in held {
            // Of a runner that was told to end nothing is counted any more.
            self.waiting_bytes = self.waiting_bytes.saturating_sub(control.payload.get().len());
            self.control(&control, now);
        }
    }

    /// The turn ends before its back end knows it.
    fn end_fetch(&mut self, now: Instant) {
        self.turn_ended(TurnEnd { status: TurnStatus::Interrupted, ..TurnEnd::completed() }, now);
    }

    /// The turn under way shall end: it is asked to, and ended if it does not.
    pub(super) fn end_turn(&mut self, reason: EndReason, now: Instant) {
        let Some(turn) = &mut self.turn else { return };
        let may_replace = matches!(turn.reason, None | Some(EndReason::Interrupted));
        if !may_replace {
            return;
        }
        let was_asked = turn.reason.is_some();
        let stops = reason == EndReason::Stopped;
        turn.reason = Some(reason);
        turn.deadline = None;
        if !turn.is_taken {
            return;
        }
        if turn.is_fetching() {
            self.end_fetch(now);
        } else if stops {
            turn.kill_at = None;
            self.actions.push_back(WorkAction::StopBackEnd);
        } else if !was_asked {
            turn.kill_at = Some(now + INTERRUPT_GRACE);
            self.actions.push_back(WorkAction::Interrupt);
        }
    }

    /// The turn has ended, in whatever way.
    pub(super) fn turn_ended(&mut self, end: TurnEnd, now: Instant) {
        let Some(turn) = self.turn.take() else { return };
        let ui_hints = end.ui_hints.clone();
        let report = (!turn.is_over).then(|| report_of(turn.reason, end));
        let command_id = turn.command_id;
        self.actions.push_back(WorkAction::Finish { command_id, report, ui_hints });
        self.let_go(turn.held, now);
        self.idle_since = now;
        match &mut self.stop_until {
            None => self.begin_next(),
            // To end the back end may have taken a while: the last words have their own time.
            Some(until) => *until = now + STOP_GRACE,
        }
    }

    /// A command has ended without us: cancelled before it was taken, or long after its time.
    pub(super) fn command_is_over(&mut self, command_id: &str, now: Instant) {
        self.controls.remove(command_id);
        self.actions.push_back(WorkAction::Forget { command_id: command_id.to_owned() });
        // Perhaps the whole run has ended.
        self.actions.push_back(WorkAction::Check);
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.command_id == command_id) else { return };
        if turn.is_taken {
            turn.is_over = true;
            (turn.deadline, turn.kill_at) = (None, None);
            if turn.is_fetching() {
                return self.end_fetch(now);
            }
            return self.actions.push_back(WorkAction::StopBackEnd);
        }
        self.turn = None;
        self.begin_next();
    }

    pub(super) fn asked(&mut self, approval_id: &str) {
        let Some(turn) = &mut self.turn else { return };
        if self.rules.passes_questions {
            turn.questions.insert(approval_id.to_owned());
            return;
        }
        let approval_id = approval_id.to_owned();
        self.resolved(&approval_id, "decline", Some("policy"));
        let answer = ApprovalAnswer { approval_id, decision: "decline".to_owned(), payload: None };
        self.actions.push_back(WorkAction::Answer(answer));
    }

    /// Answers are repeated until they are in the log: only the first time counts.
    pub(super) fn answered(&mut self, answer: RunApproval) {
        let RunApproval { approval_id, decision: Some(decision), payload, by, .. } = answer else { return };
        let is_open = self.turn.as_mut().is_some_and(|turn| turn.questions.remove(&approval_id));
        if !is_open {
            return;
        }
        self.resolved(&approval_id, &decision, by.as_deref());
        let payload = payload.and_then(|payload| serde_json::from_str::<Value>(payload.get()).ok());
        self.actions.push_back(WorkAction::Answer(ApprovalAnswer { approval_id, decision, payload }));
    }

    fn resolved(&mut self, approval_id: &str, decision: &str, by: Option<&str>) {
        let mut payload = json!({ "approvalId": approval_id, "decision": decision });
        if let Some(by) = by {
            payload["by"] = by.into();
        }
        let command_id = self.turn.as_ref().map(|turn| turn.command_id.clone());
        self.append(command_id, RunEventType::ApprovalResolved, payload);
    }
}
