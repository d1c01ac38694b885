//! What a batch of calls needs to know before it can be decided.

use crate::model::operation::{Actor, Operation, RepeatKey, TaskCall};
use kernel::Aid;
use proto_schemas::requests::task::TaskId;
use serde::Serialize;
use std::collections::BTreeSet;

/// What a batch of calls needs to know.
#[derive(Debug, Default)]
pub(crate) struct LoadWanted {
    pub tasks: BTreeSet<TaskId>,
    /// Those who get new tasks.
    pub agents: BTreeSet<Aid>,
    pub answers: BTreeSet<AnswerKey>,
    pub inputs: BTreeSet<InputKey>,
    pub artifacts: BTreeSet<TaskId>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct AnswerKey {
    pub scope: String,
    pub key: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct InputKey {
    pub task_id: TaskId,
    pub id: String,
}

impl LoadWanted {
    pub fn add(&mut self, call: &TaskCall) {
        let id = &call.task_id;
        if !matches!(call.operation, Operation::Create(_)) {
            self.tasks.insert(id.clone());
        }
        self.answer(call.repeat.as_ref());
        let new_owner = match &call.actor {
            Actor::Agent(origin) => Some(&origin.aid),
            Actor::System => None,
        };
        match &call.operation {
            Operation::Create(new) => {
                self.agents.extend(new_owner.into_iter().chain([&new.to]).cloned());
                self.answer(new.repeat.as_ref());
            }
            Operation::Delegate(new) => {
                self.agents.extend(new_owner.into_iter().chain([&new.to]).cloned());
                self.answer(new.repeat.as_ref());
            }
            Operation::SendInput(input) | Operation::RequestInput(input) if input.once => {
                self.inputs.insert(InputKey { task_id: id.clone(), id: input.id.clone() });
            }
            Operation::AddArtifact(_) | Operation::Complete { .. } => {
                self.artifacts.insert(id.clone());
            }
            _ => {}
        }
    }

    fn answer(&mut self, repeat: Option<&RepeatKey>) {
        let key = repeat.map(|repeat| AnswerKey { scope: repeat.scope.clone(), key: repeat.key.clone() });
        self.answers.extend(key);
    }
}
