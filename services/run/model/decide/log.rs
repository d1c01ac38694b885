//! The log: events get their numbers here, inside the commit.

use super::RunDecision;
use super::commands::is_open;
use crate::error::Error;
use crate::model::call::{EventFacts, Holder, NewEvent, RunAnswer};
use crate::model::run::{ApprovalRow, EventRow};
use kernel::{Kept, Payer};
use proto_schemas::requests::run::{CommandState, RunEventType};
use proto_schemas::requests::runner::{AppendedRunEvent, AppendedRunEvents};
use serde_json::Value;
use serde_json::value::to_raw_value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Questions that a run may have open.
const MOST_APPROVALS: usize = 64;

impl RunDecision<'_> {
    pub fn append(&mut self, holder: &Holder, events: Vec<NewEvent>) -> Result<RunAnswer, Error> {
        let mut stored = self.runs.stored.remove(&self.run.row.id).unwrap_or_default();
        let appended = self.append_unless_stored(holder, events, &mut stored);
        self.runs.stored.insert(self.run.row.id.clone(), stored);
        appended
    }

    /// `stored` are the numbers of those events of the run that are stored already, by the id that their runner gave them.
    fn append_unless_stored(
        &mut self,
        holder: &Holder,
        events: Vec<NewEvent>,
        stored: &mut HashMap<String, i64>,
    ) -> Result<RunAnswer, Error> {
        // A repetition of what is stored is answered again, also when the run has ended meanwhile.
        let all_known = events.iter().all(|event| stored.contains_key(&event.client_event_id));
        if !all_known {
            self.is_open()?;
        }
        self.has_lease(holder)?;
        let mut new: HashSet<&str> = HashSet::new();
        let mut bytes = 0;
        let mut questions = self.questions();
        for event in &events {
            if stored.contains_key(&event.client_event_id) || !new.insert(&event.client_event_id) {
                continue;
            }
            self.check_event(event, &mut questions)?;
            bytes += event.payload.get().len();
        }
        self.has_space_for(new.len(), bytes)?;
        let more = Kept::rows(new.len(), bytes);
        let payer = Payer::tenant(&self.run.row.tenant);
        self.runs.kept.charge(&payer, more).map_err(kernel::ChargeError::Full)?;

        let mut appended = Vec::with_capacity(events.len());
        for event in events {
            let client_event_id = event.client_event_id.clone();
            let seq = match stored.get(&client_event_id) {
                Some(seq) => *seq,
                None => {
                    let seq = self.append_one(event);
                    stored.insert(client_event_id.clone(), seq);
                    seq
                }
            };
            appended.push(AppendedRunEvent { client_event_id, seq });
        }
        Ok(RunAnswer::Appended(AppendedRunEvents { appended, last_seq: self.run.row.last_seq }))
    }

    /// The questions of the run, and whether each is open.
    fn questions(&self) -> BTreeMap<String, bool> {
        let known = self.run.approvals.iter();
        known.map(|(id, approval)| (id.clone(), approval.settled_at.is_none())).collect()
    }

    /// An event is about a command that a runner works on, or about none. What the events before it in its batch have asked and answered
    /// counts as if it were stored.
    fn check_event(&self, event: &NewEvent, questions: &mut BTreeMap<String, bool>) -> Result<(), Error> {
        if let Some(id) = &event.command_id {
            let command = self.run.commands.get(id).ok_or_else(|| Self::command_not_found(id))?;
            is_open(command)?;
            if command.state == CommandState::Pending {
                return Err(Error::Illegal(format!("command {id} was not acknowledged")));
            }
        }
        match &event.facts {
            EventFacts::Nothing => Ok(()),
            EventFacts::ApprovalRequest { .. } if event.command_id.is_none() => {
                Err(Error::Invalid("commandId is required for an approval_request".to_owned()))
            }
            EventFacts::ApprovalRequest { approval_id, .. } => may_ask(questions, approval_id),
            EventFacts::ApprovalResolved { approval_id } => match questions.get_mut(approval_id) {
                Some(open) => {
                    *open = false;
                    Ok(())
                }
                None => Err(Error::NotFound(format!("approval {approval_id}"))),
            },
        }
    }

    fn has_space_for(&self, rows: usize, bytes: usize) -> Result<(), Error> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let held = self.run.row.event_bytes;
        if rows > 0 && held.saturating_add(bytes) > self.limits.event_bytes {
            return Err(Error::Limit {
                sentence: format!("a run may have {} bytes of events at most", self.limits.event_bytes),
                scope: "run.events",
                limit: self.limits.event_bytes,
                held,
            });
        }
        Ok(())
    }

    fn append_one(&mut self, event: NewEvent) -> i64 {
        let NewEvent { client_event_id, kind, command_id, payload, facts } = event;
        if let Some(id) = &command_id {
            self.command_runs(id);
        }
        match facts {
            EventFacts::Nothing => {}
            EventFacts::ApprovalRequest { approval_id, expires_at } => {
                let end = self.end_of_time(command_id.as_deref());
                let row = ApprovalRow {
                    run_id: self.run.row.id.clone(),
                    id: approval_id.clone(),
                    command_id: command_id.clone().unwrap_or_default(),
                    question: payload.clone(),
                    decision: None,
                    answer: None,
                    answered_by: None,
                    created_at: self.now,
                    expires_at: expires_at.map_or(end, |at| at.min(end)),
                    answered_at: None,
                    settled_at: None,
                };
                self.run.approvals.insert(approval_id.clone(), row);
                self.runs.new_approvals.push((self.run.row.id.clone(), approval_id));
            }
            EventFacts::ApprovalResolved { approval_id } => {
                if let Some(approval) = self.run.approvals.get_mut(&approval_id) {
                    approval.settled_at.get_or_insert(self.now);
                    self.run.changed_approvals.insert(approval_id);
                }
            }
        }
        let attempt = self.run.row.lease.attempt.clone();
        self.push_event(kind, (command_id, attempt), payload, Some(client_event_id))
    }

    /// When the time of a command ends, which began when a runner took it.
    fn end_of_time(&self, command: Option<&str>) -> i64 {
        let command = command.and_then(|id| self.run.commands.get(id));
        command.and_then(|command| command.acknowledged_at).unwrap_or(self.now) + self.run.row.timeout_ms
    }

    /// An event of the server itself. It is short, so a full log takes it, too.
    pub(super) fn log(
        &mut self,
        kind: RunEventType,
        command: Option<&str>,
        payload: &Value,
    ) -> Result<(), Error> {
        let attempt = self.run.row.lease.attempt.clone();
        self.log_of(kind, (command.map(str::to_owned), attempt), payload)
    }

    /// The same about another attempt than the one that has the lease.
    pub(super) fn log_of(
        &mut self,
        kind: RunEventType,
        about: (Option<String>, Option<String>),
        payload: &Value,
    ) -> Result<(), Error> {
        let payload = to_raw_value(payload).map_err(kernel::RpcError::internal)?;
        self.push_event(kind, about, payload, None);
        Ok(())
    }

    fn push_event(
        &mut self,
        kind: RunEventType,
        (command_id, attempt_id): (Option<String>, Option<String>),
        payload: Box<serde_json::value::RawValue>,
        client_event_id: Option<String>,
    ) -> i64 {
        self.touch();
        let row = &mut self.run.row;
        row.last_seq += 1;
        row.event_rows += 1;
        row.event_bytes += i64::try_from(payload.get().len()).unwrap_or(i64::MAX);
        let event = EventRow {
            run_id: row.id.clone(),
            seq: row.last_seq,
            kind,
            command_id,
            attempt_id,
            payload,
            client_event_id,
            // The log does not go back where the clock was set back.
            created_at: row.updated_at.max(self.now),
        };
        let seq = event.seq;
        if let Some(command) = &event.command_id {
            self.keep_said(kind, command, &event.payload, seq);
        }
        self.runs.events.push(event);
        seq
    }
}

/// A new question, as one of those that there are already.
fn may_ask(questions: &mut BTreeMap<String, bool>, approval_id: &str) -> Result<(), Error> {
    let open = questions.values().filter(|open| **open).count();
    if questions.contains_key(approval_id) {
        return Err(Error::Illegal(format!("approval {approval_id} already exists")));
    }
    if open >= MOST_APPROVALS {
        return Err(Error::Limit {
            sentence: format!("a run may have {MOST_APPROVALS} open approvals at most"),
            scope: "run.approvals",
            limit: i64::try_from(MOST_APPROVALS).unwrap_or(i64::MAX),
            held: i64::try_from(open).unwrap_or(i64::MAX),
        });
    }
    questions.insert(approval_id.to_owned(), true);
    Ok(())
}
