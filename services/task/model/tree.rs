//! The trees that a batch of calls is about, as far as they were loaded, and what the calls have changed in them.

use super::operation::RepeatKey;
use super::task::TaskRow;
use kernel::{Aid, KeptSums};
use proto_schemas::requests::task::{TaskArtifact, TaskId};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How far below its root a task may be, how many may be directly below one, and how many below a root.
pub(crate) const MOST_DEPTH: i64 = 5;
pub(crate) const MOST_CHILDREN: usize = 20;
pub(crate) const MOST_DESCENDANTS: usize = 100;
/// What a task may have.
pub(crate) const MOST_MESSAGES: i64 = 1000;
pub(crate) const MOST_ARTIFACTS: i64 = 50;
pub(crate) const ARTIFACT_BYTES: i64 = 256 << 10;
pub(crate) const ALL_ARTIFACT_BYTES: i64 = 1 << 20;
/// How long the answer to a call is kept for its retries.
const ANSWER_MS: i64 = 86_400_000;

/// What an operator may change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskLimits {
    /// Open tasks of one owner, and of one assignee; and of the latter those of one sender, and of all senders of one other domain.
    pub open_tasks: i64,
    pub open_per_sender: i64,
    pub open_per_domain: i64,
    /// After which a task ends that is not accepted, not answered, or not worked on.
    pub accept_ms: i64,
    pub input_ms: i64,
    pub idle_ms: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Trees {
    tasks: HashMap<TaskId, TaskRow>,
    /// The tasks of each root, the root included, in the order in which they were made.
    by_root: HashMap<TaskId, BTreeSet<TaskId>>,
    /// Of the tasks that may get more of them.
    pub artifacts: HashMap<TaskId, Vec<ArtifactRow>>,
    /// The messages whose ids are used once more.
    pub inputs: HashMap<(TaskId, String), StoredInput>,
    /// The answers to calls that are made once more, by scope and key.
    pub answers: HashMap<(String, String), StoredAnswer>,
    /// How many open tasks there are of those that get new ones, and between whom.
    pub open: HashMap<Aid, OpenTasks>,
    pub open_between: OpenBetween,
    /// What is kept for those who store something.
    pub kept: KeptSums,
    pub changes: TreeChanges,
}

/// What a batch of calls has changed.
#[derive(Debug, Default)]
pub(crate) struct TreeChanges {
    /// In the order of their ids, so that rows are written in one order.
    pub tasks: BTreeSet<TaskId>,
    /// Those of them that were not there before.
    pub new: BTreeSet<TaskId>,
    pub metadata: HashMap<TaskId, Box<RawValue>>,
    pub messages: Vec<TaskMessageRow>,
    pub artifacts: Vec<(ArtifactRow, Option<Box<RawValue>>)>,
    pub answers: BTreeMap<(String, String), StoredAnswer>,
    /// Changes of versions, for whoever counts them.
    pub versions: u64,
}

/// An artifact that is stored.
#[derive(Clone, Debug)]
pub(crate) struct ArtifactRow {
    pub task_id: TaskId,
    /// Counts from 1, in the order in which they were added.
    pub position: i64,
    /// With its content where that is short enough for events.
    pub artifact: TaskArtifact,
    pub bytes: i64,
    pub digest: String,
    pub created_at: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskMessageKind {
    /// By the owner or a participant.
    Input,
    /// The assignee asks.
    Prompt,
    /// By the assignee.
    Note,
}

impl TaskMessageKind {
    pub fn as_str(self) -> &'static str {
        match self {
            TaskMessageKind::Input => "input",
            TaskMessageKind::Prompt => "prompt",
            TaskMessageKind::Note => "note",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct TaskMessageRow {
    pub task_id: TaskId,
    pub seq: i64,
    pub id: String,
    pub from: Aid,
    pub kind: TaskMessageKind,
    pub body: Box<RawValue>,
    pub created_at: i64,
}

/// What is compared where the id of a message is used once more.
#[derive(Clone, Debug)]
pub(crate) struct StoredInput {
    pub from: Aid,
    pub body: Box<RawValue>,
}

#[derive(Clone, Debug)]
pub(crate) struct StoredAnswer {
    pub body_hash: String,
    pub result: String,
    pub expires_at: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenTasks {
    pub owned: i64,
    pub assigned: i64,
}

/// How many open tasks an assignee has of those who give it new ones.
#[derive(Debug, Default)]
pub(crate) struct OpenBetween {
    /// By owner and assignee.
    pub senders: HashMap<(Aid, Aid), i64>,
    /// By the domain of the owners and the assignee, where that domain is another one.
    pub domains: HashMap<(String, Aid), i64>,
}

impl OpenBetween {
    pub fn of_sender(&self, owner: &Aid, assignee: &Aid) -> i64 {
        self.senders.get(&(owner.clone(), assignee.clone())).copied().unwrap_or_default()
    }

    pub fn of_domain(&self, owner: &Aid, assignee: &Aid) -> i64 {
        self.domains.get(&(owner.issuer().to_owned(), assignee.clone())).copied().unwrap_or_default()
    }

    /// Of those that were loaded; nobody asks for the others.
    fn count(&mut self, owner: &Aid, assignee: &Aid, more: i64) {
        if let Some(open) = self.senders.get_mut(&(owner.clone(), assignee.clone())) {
            *open += more;
        }
        if let Some(open) = self.domains.get_mut(&(owner.issuer().to_owned(), assignee.clone())) {
            *open += more;
        }
    }
}

impl Trees {
    pub fn insert(&mut self, task: TaskRow) {
        self.by_root.entry(task.root_id.clone()).or_default().insert(task.id.clone());
        self.tasks.insert(task.id.clone(), task);
    }

    pub fn get(&self, id: &TaskId) -> Option<&TaskRow> {
        self.tasks.get(id)
    }

    /// The whole tree that a task is in.
    pub fn tree_of(&self, task: &TaskRow) -> impl Iterator<Item = &TaskRow> {
        let ids = self.by_root.get(&task.root_id);
        ids.into_iter().flatten().filter_map(|id| self.tasks.get(id))
    }

    pub fn children(&self, task: &TaskRow) -> impl Iterator<Item = &TaskRow> {
        let id = task.id.clone();
        self.tree_of(task).filter(move |below| below.parent_id.as_ref() == Some(&id))
    }

    /// Everything below a task; what is above comes before what is below it.
    pub fn descendants(&self, task: &TaskRow) -> Vec<&TaskRow> {
        let mut found: Vec<&TaskRow> = self.children(task).collect();
        let mut next = 0;
        while let Some(above) = found.get(next).copied() {
            found.extend(self.children(above));
            next += 1;
        }
        found
    }

    /// The domain that a task is in: that of the owner of the root.
    fn home_of<'a>(&'a self, task: &'a TaskRow) -> &'a str {
        self.get(&task.root_id).unwrap_or(task).owner.issuer()
    }

    /// Whether agents of other domains take part in a task.
    pub fn is_known_elsewhere(&self, task: &TaskRow) -> bool {
        let home = self.home_of(task);
        task.participants.iter().any(|aid| aid.issuer() != home)
    }

    /// The other domains whose agents take part in a task.
    pub fn other_domains<'a>(&'a self, task: &'a TaskRow) -> BTreeSet<&'a str> {
        task.other_domains(self.home_of(task))
    }

    /// When something in the tree changed last: time never goes back in a tree, also where two processes have different clocks.
    pub fn changed_at(&self, task: &TaskRow) -> i64 {
        self.tree_of(task).map(|of_tree| of_tree.updated_at).max().unwrap_or_default()
    }

    /// The answer to an earlier call, unless it is too old.
    pub fn answer(&self, repeat: &RepeatKey, now: i64) -> Option<&StoredAnswer> {
        let answer = self.answers.get(&(repeat.scope.clone(), repeat.key.clone()));
        answer.filter(|answer| answer.expires_at > now)
    }

    pub fn remember(&mut self, repeat: RepeatKey, result: String, now: i64) {
        let answer = StoredAnswer { body_hash: repeat.body_hash, result, expires_at: now + ANSWER_MS };
        let key = (repeat.scope, repeat.key);
        self.answers.insert(key.clone(), answer.clone());
        self.changes.answers.insert(key, answer);
    }

    /// Changes a task that is there, and counts its owner's and assignee's open tasks anew.
    pub fn change(&mut self, id: &TaskId, change: impl FnOnce(&mut TaskRow)) -> Option<&TaskRow> {
        let task = self.tasks.get_mut(id)?;
        let was_open = task.is_open();
        change(task);
        if was_open && !task.is_open() {
            let (owner, assignee) = (task.owner.clone(), task.assignee.clone());
            self.count_open(&owner, &assignee, -1);
        }
        self.changes.tasks.insert(id.clone());
        self.changes.versions += 1;
        self.tasks.get(id)
    }

    /// The number of the next message of a task, which changes with it.
    pub fn count_message(&mut self, id: &TaskId) -> i64 {
        let Some(task) = self.tasks.get_mut(id) else { return 0 };
        task.messages += 1;
        task.messages
    }

    pub fn count_artifact(&mut self, id: &TaskId, bytes: i64) {
        if let Some(task) = self.tasks.get_mut(id) {
            task.artifacts += 1;
            task.artifact_bytes += bytes;
        }
    }

    /// Adds a task that was not there.
    pub fn add(&mut self, task: TaskRow) {
        self.count_open(&task.owner, &task.assignee, 1);
        self.changes.tasks.insert(task.id.clone());
        self.changes.new.insert(task.id.clone());
        self.changes.versions += 1;
        self.insert(task);
    }

    fn count_open(&mut self, owner: &Aid, assignee: &Aid, more: i64) {
        if let Some(open) = self.open.get_mut(owner) {
            open.owned += more;
        }
        if let Some(open) = self.open.get_mut(assignee) {
            open.assigned += more;
        }
        self.open_between.count(owner, assignee, more);
    }

    /// Every task that was changed, as it is now.
    pub fn changed(&self) -> impl Iterator<Item = &TaskRow> {
        self.changes.tasks.iter().filter_map(|id| self.tasks.get(id))
    }
}

impl TreeChanges {
    pub fn is_empty(&self) -> bool {
        // Whatever else changes, a task changes with it.
        self.tasks.is_empty()
    }
}
