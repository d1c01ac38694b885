//! Whether a call may do what it wants to, in the order in which the protocol answers: a task that the caller does not know, a right
//! that it does not have, an earlier call with the same key, the state of the task, the version it expects, and limits last. Nothing is
//! changed before everything was checked, so a call that is refused changes nothing.

use super::access::Relation;
use super::answer::{Decided, TaskAnswer, earlier};
use super::apply::Applying;
use super::error::Error;
use super::operation::{Actor, Operation, RepeatKey, TaskCall};
use super::state::Trigger;
use super::task::TaskRow;
use super::tree::{TaskLimits, Trees};
use proto_schemas::requests::task::{DelegatedTask, TaskInput};
use serde_json::value::RawValue;

pub(crate) fn decide(
    trees: &mut Trees,
    limits: &TaskLimits,
    call: TaskCall,
    now: i64,
) -> Result<Decided, Error> {
    let TaskCall { actor, task_id, repeat, expected_version, operation } = call;
    if let Operation::Create(new) = operation {
        return Applying::new(trees, limits, &actor, now).create(task_id, *new);
    }
    let not_found = || Error::NotFound(task_id.clone());
    let task = trees.get(&task_id).ok_or_else(not_found)?;
    let now = now.max(trees.changed_at(task));
    let relation = match &actor {
        Actor::Agent(origin) => trees.relation(task, &origin.aid),
        Actor::System => Relation::default(),
    };
    match (&actor, &operation) {
        (Actor::System, Operation::TimeOut { due_at }) => {
            // A call that came first has moved the time, or ended the task.
            if task.due_at != Some(*due_at) || *due_at > now {
                return Ok(Decided::without_events(TaskAnswer::TimedOut(false)));
            }
        }
        (Actor::System, Operation::Undeliverable { .. } | Operation::EndFor { .. }) => {}
        _ if !relation.knows() => return Err(not_found()),
        _ => relation.check(&operation)?,
    }
    if let Some(answer) = repeated(trees, task, &actor, repeat.as_ref(), &operation, now)? {
        return Ok(Decided::without_events(answer));
    }

    let trigger = trigger(&operation, relation, task);
    let next = task.state.after(trigger).map_err(|refusal| Error::state(refusal, task))?;
    if trigger == Trigger::Complete {
        no_open_required_child(trees, task)?;
    }
    if expected_version.is_some_and(|expected| expected != task.version) {
        return Err(Error::Version { current: task.version, state: task.state });
    }
    let decided = Applying::new(trees, limits, &actor, now).change(&task_id, relation, next, operation)?;
    // An artifact that the task has already changes nothing, and nobody pays for it: the answer to such a call is not stored, so that
    // calls without an effect store nothing. Made again, it has no effect either.
    if let Some(repeat) = repeat.filter(|_| !decided.events.is_empty()) {
        trees.remember(repeat, decided.answer.written()?, now);
    }
    Ok(decided)
}

fn trigger(operation: &Operation, relation: Relation, task: &TaskRow) -> Trigger {
    match operation {
        Operation::Accept | Operation::Create(_) => Trigger::Accept,
        Operation::Reject { .. } => Trigger::Reject,
        Operation::SendInput(_) if relation.owner => Trigger::OwnerInput,
        Operation::SendInput(_) => Trigger::OtherInput,
        Operation::RequestInput(_) => Trigger::RequestInput,
        Operation::Delegate(_) => Trigger::Delegate,
        Operation::AddArtifact(_) => Trigger::AddArtifact,
        Operation::Complete { .. } => Trigger::Complete,
        Operation::Fail { .. } => Trigger::Fail,
        Operation::Cancel { .. } => Trigger::Cancel,
        Operation::TimeOut { .. } => Trigger::TimeOut,
        Operation::Undeliverable { .. } => Trigger::Undeliverable,
        Operation::EndFor { aid } if task.owner == *aid => Trigger::OwnerEnded,
        Operation::EndFor { .. } => Trigger::AssigneeEnded,
    }
}

/// The answer to an earlier call with the same `request_id`, `idempotency_key` or `input_id`.
fn repeated(
    trees: &Trees,
    task: &TaskRow,
    actor: &Actor,
    repeat: Option<&RepeatKey>,
    operation: &Operation,
    now: i64,
) -> Result<Option<TaskAnswer>, Error> {
    if let Some(result) = repeat.map(|repeat| earlier(trees, repeat, now)).transpose()?.flatten() {
        return Ok(Some(TaskAnswer::Again(RawValue::from_string(result.to_owned()).map_err(Error::stored)?)));
    }
    match (operation, actor) {
        (Operation::Delegate(new), _) => {
            let earlier =
                new.repeat.as_ref().map(|repeat| earlier(trees, repeat, now)).transpose()?.flatten();
            let Some(result) = earlier else { return Ok(None) };
            let first: DelegatedTask = serde_json::from_str(result).map_err(Error::stored)?;
            Ok(Some(TaskAnswer::Delegated(DelegatedTask { duplicate: Some(true), ..first })))
        }
        (Operation::SendInput(input) | Operation::RequestInput(input), Actor::Agent(origin)) => {
            let stored = trees.inputs.get(&(task.id.clone(), input.id.clone())).filter(|_| input.once);
            let Some(stored) = stored else { return Ok(None) };
            let read = |text: &RawValue| serde_json::from_str::<serde_json::Value>(text.get()).ok();
            if stored.from != origin.aid || read(&stored.body) != read(&input.body) {
                return Err(Error::conflict(
                    "input_id was already used for another input",
                    "idempotency_conflict",
                ));
            }
            Ok(Some(TaskAnswer::Input(TaskInput {
                task_id: task.id.to_string(),
                status: task.state.to_string(),
                duplicate: Some(true),
            })))
        }
        _ => Ok(None),
    }
}

fn no_open_required_child(trees: &Trees, task: &TaskRow) -> Result<(), Error> {
    let blocking = trees.children(task).filter(|child| child.required && child.is_open());
    let blocking: Vec<_> = blocking.map(TaskRow::as_child).collect();
    if blocking.is_empty() { Ok(()) } else { Err(Error::Blocked(blocking)) }
}
