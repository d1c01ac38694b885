//! Who may read a task, and who may do what with it. Whoever has nothing to do with a task must not learn that it exists.

use super::error::Error;
use super::operation::Operation;
use super::task::TaskRow;
use super::tree::Trees;
use kernel::Aid;
use proto_schemas::requests::task::TaskVisibility;
use std::sync::Arc;

/// What an agent has to do with a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relation {
    pub owner: bool,
    pub assignee: bool,
    /// Owner, assignee, or one of the others.
    pub participant: bool,
    /// Owns the root of the tree, and so may cancel every task in it.
    pub root_owner: bool,
    pub reads: bool,
}

impl Relation {
    /// For anybody else the task does not exist.
    pub fn knows(&self) -> bool {
        self.reads || self.root_owner
    }

    /// Whether an operation is for somebody with this relation.
    pub fn check(&self, operation: &Operation) -> Result<(), Error> {
        let (allowed, who) = match operation {
            Operation::Create(_) => (true, ""),
            Operation::Accept
            | Operation::Reject { .. }
            | Operation::RequestInput(_)
            | Operation::AddArtifact(_)
            | Operation::Complete { .. }
            | Operation::Fail { .. } => (self.assignee, "only the assignee of a task may do this"),
            Operation::Delegate(_) if !self.assignee => return Err(Error::DelegationDenied),
            Operation::Delegate(_) => (true, ""),
            Operation::SendInput(_) => {
                (self.participant, "only the owner, the assignee and the participants of a task may do this")
            }
            Operation::Cancel { .. } => (
                self.owner || self.root_owner,
                "only the owner of a task, or of the root of its tree, may do this",
            ),
            // Nobody but the server itself makes one of these.
            Operation::TimeOut { .. } | Operation::Undeliverable { .. } | Operation::EndFor { .. } => {
                (false, "only the server may do this")
            }
        };
        if allowed { Ok(()) } else { Err(Error::Denied(who)) }
    }
}

/// Who may read a task, for those who have subscribed to its events.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TaskReaders {
    Everybody,
    Only(Arc<[Aid]>),
}

impl TaskReaders {
    pub fn contain(&self, aid: &Aid) -> bool {
        match self {
            TaskReaders::Everybody => true,
            TaskReaders::Only(aids) => aids.contains(aid),
        }
    }
}

impl Trees {
    pub fn relation(&self, task: &TaskRow, aid: &Aid) -> Relation {
        let participant = task.participants.contains(aid);
        let reads = match task.visibility {
            TaskVisibility::Private => participant,
            TaskVisibility::Shared => self.tree_of(task).any(|of_tree| of_tree.participants.contains(aid)),
            TaskVisibility::Public => true,
        };
        Relation {
            owner: task.owner == *aid,
            assignee: task.assignee == *aid,
            participant,
            root_owner: self.get(&task.root_id).is_some_and(|root| root.owner == *aid),
            reads,
        }
    }

    pub fn readers(&self, task: &TaskRow) -> TaskReaders {
        match task.visibility {
            TaskVisibility::Private => TaskReaders::Only(task.participants.clone()),
            TaskVisibility::Shared => {
                let of_tree = self.tree_of(task).flat_map(|of_tree| of_tree.participants.iter());
                TaskReaders::Only(of_tree.cloned().collect())
            }
            TaskVisibility::Public => TaskReaders::Everybody,
        }
    }
}
