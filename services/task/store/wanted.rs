//! What a batch of calls needs to know before it can be decided.

use crate::model::operation::{Actor, Operation, RepeatKey, TaskCall};
use kernel::{Aid, Payer};
use proto_schemas::requests::task::TaskId;
use serde::Serialize;
use std::collections::BTreeSet;

/// What a batch of calls needs to know.
#[derive(Debug, Default)]
pub(crate) struct LoadWanted {
    pub tasks: BTreeSet<TaskId>,
    /// Those who give and get new tasks, and who gives them to whom.
    pub agents: BTreeSet<Aid>,
    pub pairs: BTreeSet<TaskPair>,
    pub answers: BTreeSet<AnswerKey>,
    pub inputs: BTreeSet<InputKey>,
    pub artifacts: BTreeSet<TaskId>,
    /// Those who store something.
    pub payers: BTreeSet<Payer>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct TaskPair {
    pub assignee: Aid,
    pub owner: Aid,
    /// That of the owner, where the assignee is of another one.
    pub domain: Option<String>,
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
        if let Actor::Agent(origin) = &call.actor
            && call.operation.stores()
        {
            self.payers.extend(origin.payer.clone());
        }
        let new_owner = match &call.actor {
            Actor::Agent(origin) => Some(&origin.aid),
            Actor::System => None,
        };
        match &call.operation {
            Operation::Create(new) => {
                self.new_task(new_owner, &new.to);
                self.answer(new.repeat.as_ref());
            }
            Operation::Delegate(new) => {
                self.new_task(new_owner, &new.to);
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

    fn new_task(&mut self, owner: Option<&Aid>, assignee: &Aid) {
        self.agents.extend(owner.into_iter().chain([assignee]).cloned());
        self.pairs.extend(owner.map(|owner| TaskPair {
            assignee: assignee.clone(),
            owner: owner.clone(),
            domain: (owner.issuer() != assignee.issuer()).then(|| owner.issuer().to_owned()),
        }));
    }

    fn answer(&mut self, repeat: Option<&RepeatKey>) {
        let key = repeat.map(|repeat| AnswerKey { scope: repeat.scope.clone(), key: repeat.key.clone() });
        self.answers.extend(key);
    }
}
