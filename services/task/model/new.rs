//! New tasks: roots, and those that are delegated.

use super::answer::{Decided, TaskAnswer, earlier};
use super::apply::Applying;
use super::error::Error;
use super::event::EventDetail;
use super::operation::{Actor, CallOrigin, NewChild, NewInput, NewTask};
use super::state::TaskState;
use super::task::TaskRow;
use super::tree::{MOST_CHILDREN, MOST_DEPTH, MOST_DESCENDANTS, TaskLimits, TaskMessageKind, Trees};
use kernel::{AccountFull, Aid, Kept, iso};
use proto_schemas::requests::task::{CreatedTask, DelegatedTask, TaskId, TaskVisibility};
use serde_json::value::RawValue;
use std::sync::Arc;

/// A sender with fewer open tasks in the list of an assignee finds a place in it, up to twice its size.
const FEW_TASKS: i64 = 4;

impl Applying<'_> {
    pub fn create(mut self, id: TaskId, new: NewTask) -> Result<Decided, Error> {
        let origin = self.origin()?.clone();
        if let Some(repeat) = &new.repeat
            && let Some(result) = earlier(self.trees, repeat, self.now)?
        {
            let first: CreatedTask = serde_json::from_str(result).map_err(Error::stored)?;
            let answer = TaskAnswer::Created(CreatedTask { duplicate: Some(true), ..first });
            return Ok(Decided { answer, events: Vec::new() });
        }
        self.may_have_another(&origin.aid, &new.to)?;
        let participants = participants(&origin.aid, &new.to, new.participants);
        self.charge(kept_of_task(&new.title, new.metadata.as_deref(), &participants, &new.input))?;

        let accept_ms = new.accept_timeout_ms.unwrap_or(self.limits.accept_ms);
        let created = CreatedTask {
            task_id: id.to_string(),
            status: TaskState::Submitted.to_string(),
            owner: origin.aid.to_string(),
            assignee: new.to.to_string(),
            created_at: iso(self.now),
            duplicate: None,
        };
        if let Some(metadata) = new.metadata {
            self.trees.changes.metadata.insert(id.clone(), metadata);
        }
        self.add(TaskRow {
            root_id: id.clone(),
            parent_id: None,
            depth: 0,
            participants,
            visibility: new.visibility,
            required: true,
            title: new.title,
            due_at: Some(self.now + accept_ms),
            ..self.submitted(id.clone(), &origin, new.to)
        });
        self.begin(&id, new.input);
        let answer = TaskAnswer::Created(created);
        if let Some(repeat) = new.repeat {
            self.trees.remember(repeat, answer.written()?, self.now);
        }
        Ok(self.decided(answer))
    }

    pub fn delegate(mut self, parent: TaskRow, new: NewChild) -> Result<Decided, Error> {
        let origin = self.origin()?.clone();
        let visibility = new.visibility.unwrap_or(parent.visibility);
        if visibility > parent.visibility {
            return Err(Error::conflict(
                "a delegated task cannot be more visible than its parent",
                "too_visible",
            ));
        }
        within_tree(self.trees, &parent)?;
        self.may_have_another(&origin.aid, &new.to)?;
        let participants = participants(&origin.aid, &new.to, Vec::new());
        self.charge(kept_of_task("", None, &participants, &new.input))?;

        let child = TaskRow {
            root_id: parent.root_id.clone(),
            parent_id: Some(parent.id.clone()),
            depth: parent.depth + 1,
            participants,
            visibility,
            required: new.required,
            due_at: Some(self.now + self.limits.accept_ms),
            ..self.submitted(new.id.clone(), &origin, new.to.clone())
        };
        let answer = TaskAnswer::Delegated(DelegatedTask {
            task_id: new.id.to_string(),
            parent_task_id: parent.id.to_string(),
            status: child.state.to_string(),
            assignee: new.to.to_string(),
            duplicate: None,
        });
        self.add(child);
        self.enter(&parent.id, parent.state, None);
        let (child_task_id, assignee, required) = (new.id.clone(), new.to, new.required);
        self.tell(&parent.id, EventDetail::Delegated { child_task_id, assignee, required });
        self.begin(&new.id, new.input);
        if let Some(repeat) = new.repeat {
            self.trees.remember(repeat, answer.written()?, self.now);
        }
        Ok(self.decided(answer))
    }

    fn origin(&self) -> Result<&CallOrigin, Error> {
        match self.actor {
            Actor::Agent(origin) => Ok(origin),
            Actor::System => Err(Error::Denied("only agents can create tasks")),
        }
    }

    /// The first message of a task is its input.
    fn begin(&mut self, id: &TaskId, input: NewInput) {
        self.say(id, TaskMessageKind::Input, input);
        self.tell(id, EventDetail::Updated { message: None });
    }

    fn submitted(&self, id: TaskId, origin: &CallOrigin, assignee: Aid) -> TaskRow {
        TaskRow {
            root_id: id.clone(),
            id,
            parent_id: None,
            depth: 0,
            state: TaskState::Submitted,
            version: 1,
            owner: origin.aid.clone(),
            assignee,
            participants: Arc::default(),
            visibility: TaskVisibility::Private,
            required: true,
            title: String::new(),
            reason: None,
            messages: 0,
            artifacts: 0,
            artifact_bytes: 0,
            created_at: self.now,
            updated_at: self.now,
            accepted_at: None,
            ended_at: None,
            due_at: None,
        }
    }

    /// A sender that gave an assignee few tasks may give it another one although its list is full, or what its domain may have in it: those
    /// who filled it keep nobody out.
    fn may_have_another(&self, owner: &Aid, assignee: &Aid) -> Result<(), Error> {
        let TaskLimits { open_tasks, open_per_sender, open_per_domain, .. } = *self.limits;
        let open = |aid: &Aid| self.trees.open.get(aid).copied().unwrap_or_default();
        let of_sender = self.trees.open_between.of_sender(owner, assignee);
        let times = if of_sender < FEW_TASKS { 2 } else { 1 };
        let counted = [
            (open(owner).owned, open_tasks, 1, "task.open_tasks", owner, " as their owner"),
            (of_sender, open_per_sender, 1, "task.open_tasks_per_sender", assignee, " of yours"),
            (
                self.trees.open_between.of_domain(owner, assignee),
                open_per_domain,
                times,
                "task.open_tasks_per_domain",
                assignee,
                " of your domain",
            ),
            (open(assignee).assigned, open_tasks, times, "task.open_tasks", assignee, ""),
        ];
        let full = counted.into_iter().find(|(held, most, times, ..)| held >= &(most * times));
        match full {
            None => Ok(()),
            Some((held, limit, _, scope, who, whose)) => {
                let sentence = format!("{who} has {held} open tasks{whose}");
                // It does not end by itself: somebody has to end a task.
                Err(AccountFull { sentence, scope, limit, held, retry_after_ms: None }.into())
            }
        }
    }
}

fn within_tree(trees: &Trees, parent: &TaskRow) -> Result<(), Error> {
    if parent.depth >= MOST_DEPTH {
        return Err(Error::ChildLimit { limit: "depth", most: MOST_DEPTH.unsigned_abs() as usize });
    }
    if trees.children(parent).count() >= MOST_CHILDREN {
        return Err(Error::ChildLimit { limit: "children", most: MOST_CHILDREN });
    }
    // The root itself is in the tree, too.
    if trees.tree_of(parent).count() > MOST_DESCENDANTS {
        return Err(Error::ChildLimit { limit: "descendants", most: MOST_DESCENDANTS });
    }
    Ok(())
}

/// A new task is a row, and its input is one.
fn kept_of_task(title: &str, metadata: Option<&RawValue>, participants: &[Aid], input: &NewInput) -> Kept {
    // They are stored as a list in JSON, of which the brackets are left out here.
    let names: usize = participants.iter().map(|aid| aid.as_str().len() + 3).sum();
    let metadata = metadata.map_or(0, |metadata| metadata.get().len());
    Kept::rows(2, title.len() + metadata + names + input.body.get().len())
}

/// Owner and assignee first, each once.
fn participants(owner: &Aid, assignee: &Aid, more: Vec<Aid>) -> Arc<[Aid]> {
    let mut all = vec![owner.clone()];
    for aid in [assignee.clone()].into_iter().chain(more) {
        if !all.contains(&aid) {
            all.push(aid);
        }
    }
    all.into()
}
