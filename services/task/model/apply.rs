//! What a call does once it is known that it may: rows change, and events are written down. Only limits are checked here, before
//! anything changes.

use super::access::Relation;
use super::answer::{Decided, TaskAnswer};
use super::error::Error;
use super::event::{EventDetail, SYSTEM, TaskEvent, TaskEventParams};
use super::operation::{Actor, CallOrigin, NewInput, Operation};
use super::state::TaskState;
use super::task::TaskRow;
use super::tree::{MOST_MESSAGES, StoredInput, TaskLimits, TaskMessageKind, TaskMessageRow, Trees};
use kernel::{Kept, iso};
use proto_schemas::requests::task::{ChangedTask, TaskId, TaskInput};

pub(super) struct Applying<'a> {
    pub trees: &'a mut Trees,
    pub limits: &'a TaskLimits,
    pub actor: &'a Actor,
    pub now: i64,
    events: Vec<TaskEvent>,
}

impl<'a> Applying<'a> {
    pub fn new(trees: &'a mut Trees, limits: &'a TaskLimits, actor: &'a Actor, now: i64) -> Applying<'a> {
        Applying { trees, limits, actor, now, events: Vec::new() }
    }

    /// An operation on a task that is there, which leads to this state.
    pub fn change(
        mut self,
        id: &TaskId,
        relation: Relation,
        next: TaskState,
        operation: Operation,
    ) -> Result<Decided, Error> {
        let task = self.trees.get(id).cloned().ok_or_else(|| Error::NotFound(id.clone()))?;
        match operation {
            Operation::Accept | Operation::Create(_) => {
                self.enter(id, next, None);
                self.tell(id, EventDetail::Updated { message: None });
            }
            Operation::Reject { reason } => {
                self.enter(id, next, reason);
                self.tell(id, EventDetail::Updated { message: None });
            }
            Operation::SendInput(input) => {
                let kind = match relation.assignee && !relation.owner {
                    true => TaskMessageKind::Note,
                    false => TaskMessageKind::Input,
                };
                return self.input(&task, next, kind, input);
            }
            Operation::RequestInput(input) => {
                return self.input(&task, next, TaskMessageKind::Prompt, input);
            }
            Operation::Delegate(new) => return self.delegate(task, *new),
            Operation::AddArtifact(artifact) => return self.add_artifact(&task, *artifact),
            Operation::Complete { artifacts } => return self.complete(&task, artifacts),
            Operation::Fail { reason } => {
                self.cancel_below(&task, "parent_failed");
                self.enter(id, next, reason);
                self.tell(id, EventDetail::Failed);
            }
            Operation::Cancel { reason } => {
                self.cancel_below(&task, "parent_canceled");
                self.enter(id, next, reason);
                self.tell(id, EventDetail::Updated { message: None });
            }
            Operation::Undeliverable { reason } => {
                self.enter(id, next, Some(reason.to_owned()));
                self.tell(id, EventDetail::Updated { message: None });
            }
            Operation::TimeOut { .. } => {
                let reason = match task.state {
                    TaskState::Submitted => "accept_timeout",
                    TaskState::InputRequired => "input_timeout",
                    _ => "stale",
                };
                self.end_by_system(&task, next, reason);
                return Ok(self.decided(TaskAnswer::TimedOut(true)));
            }
            Operation::EndFor { aid } => {
                let reason = if task.owner == aid { "owner_revoked" } else { "assignee_revoked" };
                self.end_by_system(&task, next, reason);
            }
        }
        let changed = ChangedTask { task_id: id.to_string(), status: next.to_string() };
        Ok(self.decided(TaskAnswer::Changed(changed)))
    }

    fn input(
        mut self,
        task: &TaskRow,
        next: TaskState,
        kind: TaskMessageKind,
        input: NewInput,
    ) -> Result<Decided, Error> {
        if task.messages >= MOST_MESSAGES {
            return Err(Error::conflict(
                format!("a task has at most {MOST_MESSAGES} messages"),
                "too_many_messages",
            ));
        }
        self.charge(Kept::rows(1, input.body.get().len()))?;
        let message = Some(input.body.clone());
        self.enter(&task.id, next, None);
        self.say(&task.id, kind, input);
        self.tell(&task.id, EventDetail::Updated { message });
        let answer = TaskInput { task_id: task.id.to_string(), status: next.to_string(), duplicate: None };
        Ok(self.decided(TaskAnswer::Input(answer)))
    }

    /// Ends a task that no call has ended, and what is open below it.
    fn end_by_system(&mut self, task: &TaskRow, next: TaskState, reason: &str) {
        let (below, detail) = match next {
            TaskState::Failed => ("parent_failed", EventDetail::Failed),
            _ => ("parent_canceled", EventDetail::Updated { message: None }),
        };
        self.cancel_below(task, below);
        self.enter(&task.id, next, Some(reason.to_owned()));
        self.tell(&task.id, detail);
    }

    /// Cancels everything open below a task, the lowest first, so that nobody hears of an end before those below it have ended.
    pub fn cancel_below(&mut self, task: &TaskRow, reason: &str) {
        let below = self.trees.descendants(task).into_iter().rev();
        let open: Vec<TaskId> = below.filter(|below| below.is_open()).map(|below| below.id.clone()).collect();
        for id in open {
            self.enter(&id, TaskState::Canceled, Some(reason.to_owned()));
            self.tell(&id, EventDetail::Updated { message: None });
        }
    }

    /// The last check of a call that stores something: nothing has changed before it, and nothing is refused after it.
    pub fn charge(&mut self, more: Kept) -> Result<(), Error> {
        match self.actor {
            Actor::Agent(CallOrigin { payer: Some(payer), .. }) => Ok(self.trees.kept.charge(payer, more)?),
            _ => Ok(()),
        }
    }

    pub fn add(&mut self, task: TaskRow) {
        self.trees.add(task);
    }

    /// The one change of a task by this call: whatever else changes belongs to the same version.
    pub fn enter(&mut self, id: &TaskId, state: TaskState, reason: Option<String>) {
        let (now, idle, input) = (self.now, self.limits.idle_ms, self.limits.input_ms);
        self.trees.change(id, |task| {
            task.due_at = match state {
                TaskState::Working => Some(now + idle),
                TaskState::InputRequired if task.state != state => Some(now + input),
                TaskState::Submitted | TaskState::InputRequired => task.due_at,
                _ => None,
            };
            if task.state == TaskState::Submitted && state == TaskState::Working {
                task.accepted_at = Some(now);
            }
            if state.is_terminal() {
                (task.ended_at, task.reason) = (Some(now), reason);
            }
            (task.state, task.updated_at) = (state, now);
            task.version += 1;
        });
    }

    pub fn say(&mut self, id: &TaskId, kind: TaskMessageKind, input: NewInput) {
        let Actor::Agent(origin) = self.actor else { return };
        let seq = self.trees.count_message(id);
        let row = TaskMessageRow {
            task_id: id.clone(),
            seq,
            id: input.id.clone(),
            from: origin.aid.clone(),
            kind,
            body: input.body.clone(),
            created_at: self.now,
        };
        self.trees.changes.messages.push(row);
        let stored = StoredInput { from: origin.aid.clone(), body: input.body };
        self.trees.inputs.insert((id.clone(), input.id), stored);
    }

    pub fn tell(&mut self, id: &TaskId, detail: EventDetail) {
        let Some(task) = self.trees.get(id) else { return };
        let by_system = matches!(self.actor, Actor::System);
        let params = TaskEventParams {
            task_id: id.clone(),
            status: task.state,
            version: task.version,
            updated_at: iso(task.updated_at),
            actor: self.actor_name(),
            message: None,
            reason: task.reason.clone(),
            artifact: None,
            artifacts: None,
            unsuccessful_children: None,
            child_task_id: None,
            assignee: None,
            required: None,
        };
        let event = TaskEvent {
            name: detail.name(),
            task_id: id.clone(),
            owner: task.owner.clone(),
            assignee: detail.is_for_assignee(task.state, by_system).then(|| task.assignee.clone()),
            readers: self.trees.readers(task),
            relayed: self.trees.is_known_elsewhere(task).then(|| Box::new(task.clone())),
            params: detail.fill(params),
        };
        self.events.push(event);
    }

    pub fn decided(self, answer: TaskAnswer) -> Decided {
        Decided { answer, events: self.events }
    }

    pub fn actor_name(&self) -> String {
        match self.actor {
            Actor::Agent(origin) => origin.aid.to_string(),
            Actor::System => SYSTEM.to_owned(),
        }
    }
}
