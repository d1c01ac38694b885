//! What a call is answered, also when it is repeated.

use super::error::Error;
use super::event::TaskEvent;
use super::operation::RepeatKey;
use super::tree::Trees;
use kernel::RpcError;
use proto_schemas::requests::task::{
    AddedArtifact, ChangedTask, CompletedTask, CreatedTask, DelegatedTask, TaskInput,
};
use serde::Serialize;
use serde_json::value::RawValue;

/// What a call is answered, and what others are told of it, in this order.
#[derive(Debug)]
pub(crate) struct Decided {
    pub answer: TaskAnswer,
    pub events: Vec<TaskEvent>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum TaskAnswer {
    Created(CreatedTask),
    Delegated(DelegatedTask),
    Changed(ChangedTask),
    Input(TaskInput),
    Added(AddedArtifact),
    Completed(CompletedTask),
    /// The answer to an earlier call, as it was written.
    Again(Box<RawValue>),
    /// A time that ran out, or did not because something happened.
    TimedOut(bool),
}

impl Decided {
    pub fn without_events(answer: TaskAnswer) -> Decided {
        Decided { answer, events: Vec::new() }
    }
}

impl TaskAnswer {
    pub fn written(&self) -> Result<String, Error> {
        serde_json::to_string(self).map_err(Error::stored)
    }
}

/// What one method answers, out of what any of them may be answered.
macro_rules! results {
    ($($variant:ident($result:ty)),* $(,)?) => {
        $(impl TryFrom<TaskAnswer> for $result {
            type Error = Error;

            fn try_from(answer: TaskAnswer) -> Result<$result, Error> {
                match answer {
                    TaskAnswer::$variant(result) => Ok(result),
                    TaskAnswer::Again(text) => serde_json::from_str(text.get()).map_err(Error::stored),
                    // What it is instead has an agent's texts in it, which no log may have.
                    _ => {
                        let cause = concat!("a call for ", stringify!($result), " got another answer");
                        Err(RpcError::internal(anyhow::anyhow!(cause)).into())
                    }
                }
            }
        })*
    };
}

results! {
    Created(CreatedTask),
    Delegated(DelegatedTask),
    Changed(ChangedTask),
    Input(TaskInput),
    Added(AddedArtifact),
    Completed(CompletedTask),
}

/// The stored answer to a call with this key. The same key with other parameters is refused.
pub(super) fn earlier<'a>(trees: &'a Trees, repeat: &RepeatKey, now: i64) -> Result<Option<&'a str>, Error> {
    let Some(answer) = trees.answer(repeat, now) else { return Ok(None) };
    if answer.body_hash != repeat.body_hash {
        return Err(Error::conflict(
            "the key was already used with other parameters",
            "idempotency_conflict",
        ));
    }
    Ok(Some(&answer.result))
}
