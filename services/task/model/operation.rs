//! Every call that changes a task, with its parameters, checked as far as that is possible without the task.

use kernel::{Aid, CallingAgent, DeviceId, Payer, SlotId};
use proto_schemas::requests::task::{TaskArtifact, TaskId, TaskVisibility};
use serde_json::value::RawValue;

/// One call. The ids of what it may make are in it, so that deciding needs no chance.
#[derive(Debug)]
pub(crate) struct TaskCall {
    pub actor: Actor,
    /// The task it is about; for a new one its id.
    pub task_id: TaskId,
    /// Of the `request_id`.
    pub repeat: Option<RepeatKey>,
    pub expected_version: Option<i64>,
    pub operation: Operation,
}

#[derive(Clone, Debug)]
pub(crate) enum Actor {
    Agent(CallOrigin),
    /// The server itself.
    System,
}

/// Where a call came from: this connection is not told what it caused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallOrigin {
    pub aid: Aid,
    pub device: DeviceId,
    pub slot: SlotId,
    /// 0 for a call over HTTP.
    pub connection: u64,
    /// Who pays for what it stores.
    pub payer: Option<Payer>,
}

impl CallOrigin {
    pub fn of(session: &CallingAgent, payer: Payer) -> CallOrigin {
        CallOrigin {
            aid: session.aid.clone(),
            device: session.device.clone(),
            slot: session.slot.clone(),
            connection: session.connection,
            payer: Some(payer),
        }
    }
}

/// What makes a retry safe: the same key in the same scope is answered as the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepeatKey {
    pub scope: String,
    pub key: String,
    /// Of the parameters: the same key with others is a mistake of the caller.
    pub body_hash: String,
}

#[derive(Debug)]
pub(crate) enum Operation {
    Create(Box<NewTask>),
    Accept,
    Reject {
        reason: Option<String>,
    },
    SendInput(NewInput),
    RequestInput(NewInput),
    Delegate(Box<NewChild>),
    AddArtifact(Box<OfferedArtifact>),
    Complete {
        artifacts: Vec<OfferedArtifact>,
    },
    Fail {
        reason: Option<String>,
    },
    Cancel {
        reason: Option<String>,
    },
    /// Nothing has happened until this time, which was the task's when it was looked for.
    TimeOut {
        due_at: i64,
    },
    /// The assignee is of another domain, and cannot be told of the task.
    Undeliverable {
        reason: &'static str,
    },
    /// The AID of the owner or of the assignee was revoked, or its name lapsed.
    EndFor {
        aid: Aid,
    },
}

#[derive(Debug)]
pub(crate) struct NewTask {
    pub to: Aid,
    pub input: NewInput,
    pub visibility: TaskVisibility,
    pub title: String,
    /// Beside owner and assignee.
    pub participants: Vec<Aid>,
    pub metadata: Option<Box<RawValue>>,
    pub accept_timeout_ms: Option<i64>,
    /// Of the `idempotency_key`.
    pub repeat: Option<RepeatKey>,
}

#[derive(Debug)]
pub(crate) struct NewChild {
    pub id: TaskId,
    pub to: Aid,
    pub input: NewInput,
    pub required: bool,
    pub visibility: Option<TaskVisibility>,
    /// Of the `idempotency_key`.
    pub repeat: Option<RepeatKey>,
}

/// Something that is said.
#[derive(Debug)]
pub(crate) struct NewInput {
    pub id: String,
    /// Whether the caller has given the id: then it is taken once.
    pub once: bool,
    pub body: Box<RawValue>,
}

/// A result that is handed in.
#[derive(Debug)]
pub(crate) struct OfferedArtifact {
    /// Without its content, and without who adds it and when.
    pub stored: TaskArtifact,
    pub content: Option<Box<RawValue>>,
    /// What the content weighs.
    pub bytes: i64,
    /// Of everything that makes it the same artifact.
    pub digest: String,
}

impl Operation {
    /// Whether it makes rows that somebody pays for, if it may be done.
    pub fn stores(&self) -> bool {
        match self {
            Operation::Create(_)
            | Operation::SendInput(_)
            | Operation::RequestInput(_)
            | Operation::Delegate(_)
            | Operation::AddArtifact(_) => true,
            Operation::Complete { artifacts } => !artifacts.is_empty(),
            Operation::Accept
            | Operation::Reject { .. }
            | Operation::Fail { .. }
            | Operation::Cancel { .. }
            | Operation::TimeOut { .. }
            | Operation::EndFor { .. }
            | Operation::Undeliverable { .. } => false,
        }
    }
}

impl TaskCall {
    /// What it weighs while it waits.
    pub fn bytes(&self) -> usize {
        const EMPTY: usize = 512;
        let raw = |text: &Option<Box<RawValue>>| text.as_ref().map_or(0, |text| text.get().len());
        let artifact =
            |artifact: &OfferedArtifact| EMPTY + raw(&artifact.content) + raw(&artifact.stored.reference);
        let more = match &self.operation {
            Operation::Create(new) => new.input.body.get().len() + new.title.len() + raw(&new.metadata),
            Operation::Delegate(new) => new.input.body.get().len(),
            Operation::SendInput(input) | Operation::RequestInput(input) => input.body.get().len(),
            Operation::AddArtifact(offered) => artifact(offered),
            Operation::Complete { artifacts } => artifacts.iter().map(artifact).sum(),
            Operation::Reject { reason } | Operation::Fail { reason } | Operation::Cancel { reason } => {
                reason.as_ref().map_or(0, String::len)
            }
            Operation::Accept
            | Operation::TimeOut { .. }
            | Operation::Undeliverable { .. }
            | Operation::EndFor { .. } => 0,
        };
        EMPTY + more
    }
}
