//! What the ledger is asked to write, and what became of it.

use super::stored_message::{MessageKey, StoredMessage};
use kernel::{Aid, DeviceId, PresentSession, TracedCall};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) enum Write {
    Send(Box<NewMessage>, DeviceChanges),
    Ack(CursorAdvance),
    Recall(Box<Recall>),
    Count(ToolCallCount),
}

/// A message that has no seqs yet.
pub(crate) struct NewMessage {
    /// Its `entries` have no `seq` yet.
    pub message: StoredMessage,
    /// The device behind each entry, for the event.
    pub devices: Vec<DeviceId>,
    /// The one connection that gets a queue message, and the payload that only memory keeps.
    pub queue: Option<QueueDelivery>,
    pub trace: Option<Arc<TracedCall>>,
    /// Whether the commit counts it among the tool calls of its sender, and refuses it where they are too many.
    pub tool_call: bool,
}

pub(crate) struct QueueDelivery {
    pub session: Option<PresentSession>,
    pub payload: Box<RawValue>,
}

/// What an agent's devices were when a message was addressed: an inbox, and how often they had changed. Only PostgreSQL
/// counts that, where other processes add devices, too.
#[derive(Default)]
pub(crate) struct DeviceChanges(pub Vec<(i64, i64)>);

/// A consumer says how far it has read.
pub(crate) struct CursorAdvance {
    pub inbox: i64,
    pub slot: String,
    /// Empty for all senders together.
    pub sender: String,
    pub seq: i64,
}

/// A sender recalls messages.
pub(crate) struct Recall {
    pub from: Aid,
    pub device: DeviceId,
    pub message_ids: Vec<String>,
    pub now: i64,
    /// Messages older than this stay.
    pub since: i64,
    /// The ids of the notices about it, one for each recipient.
    pub notice_ids: Vec<String>,
    /// The devices behind the inboxes that may get a notice.
    pub devices: HashMap<i64, DeviceId>,
}

/// Counts a tool call that no commit stores: its content is in memory only, or the domain of its recipient stores it.
pub(crate) struct ToolCallCount {
    pub from: Aid,
    pub key: MessageKey,
    pub change: CountChange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountChange {
    Add {
        at: i64,
    },
    /// It was not sent after all.
    Remove,
}

/// What became of one write of a commit, by its kind. Callers of the ledger see only the outcome of what they asked for.
pub(crate) enum WriteOutcome {
    Send(SendOutcome),
    Ack(AckOutcome),
    Recall(RecallOutcomes),
    Count(CountOutcome),
}

pub(crate) enum SendOutcome {
    Sent(Arc<StoredMessage>),
    /// It was sent before, as this message.
    Duplicate(Arc<StoredMessage>),
    /// The devices it was addressed to are not those its recipient has.
    DevicesChanged,
    /// A tool call that came too soon after others of its sender, and is not stored.
    TooManyToolCalls {
        retry_after_ms: i64,
    },
}

/// Where a cursor was, and where it is now.
pub(crate) struct AckOutcome {
    pub before: i64,
    pub now: i64,
}

/// Message ids in the order they were asked for, each with what became of it.
pub(crate) type RecallOutcomes = Vec<(String, RecallOutcome)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountOutcome {
    Counted,
    /// A call with this key is counted already.
    CountedBefore,
    TooMany {
        retry_after_ms: i64,
    },
    Removed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecallOutcome {
    Recalled,
    NotFound,
    AlreadyRecalled,
    Expired,
}

/// A message that is durable, and whom to publish it to.
pub(crate) struct CommittedMessage {
    pub message: Arc<StoredMessage>,
    pub devices: Vec<DeviceId>,
    /// The one connection that gets a queue message.
    pub session: Option<PresentSession>,
    pub trace: Option<Arc<TracedCall>>,
}

impl Write {
    /// The inboxes it may change.
    pub fn inboxes(&self) -> Vec<i64> {
        match self {
            Write::Send(new, changes) => {
                let addressed = new.message.entries.iter().map(|entry| entry.inbox);
                addressed.chain(changes.0.iter().map(|(inbox, _)| *inbox)).collect()
            }
            Write::Ack(advance) => vec![advance.inbox],
            Write::Recall(recall) => recall.devices.keys().copied().collect(),
            Write::Count(_) => Vec::new(),
        }
    }

    /// Roughly how many bytes it takes in a queue.
    pub fn bytes(&self) -> usize {
        match self {
            Write::Send(new, _) => {
                new.message.bytes() + new.queue.as_ref().map_or(0, |queue| queue.payload.get().len())
            }
            Write::Ack(_) | Write::Count(_) => 128,
            Write::Recall(recall) => 128 + recall.message_ids.iter().map(String::len).sum::<usize>(),
        }
    }
}
