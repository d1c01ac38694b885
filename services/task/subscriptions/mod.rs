//! Calls about hearing of tasks.

mod subscribe;
mod unsubscribe;

use super::model::error::Error;
use super::store::SubscriberKey;
use kernel::{Caller, RpcError, SlotId};
use proto_schemas::requests::task::TaskId;
use std::collections::BTreeSet;

/// Tasks that one call may name.
const MOST_IDS: usize = 100;

/// What is left of a session when its connection is gone.
fn subscriber(caller: &Caller) -> Result<SubscriberKey, Error> {
    let session = match caller {
        Caller::Foreign(session, _) => session,
        _ => caller.connected_agent()?,
    };
    let slot = SlotId::parse(session.slot.key()).map_err(RpcError::internal)?;
    Ok(SubscriberKey { aid: session.aid.clone(), device: session.device.clone(), slot })
}

fn task_set(ids: &[TaskId]) -> Result<BTreeSet<TaskId>, Error> {
    match ids.len() {
        1..=MOST_IDS => Ok(ids.iter().cloned().collect()),
        _ => Err(Error::Param(format!("task_ids must have 1 to {MOST_IDS} entries"))),
    }
}

/// Those of them that were not chosen.
fn left(wanted: &BTreeSet<TaskId>, chosen: &[TaskId]) -> BTreeSet<TaskId> {
    wanted.iter().filter(|id| !chosen.contains(id)).cloned().collect()
}

/// Adds what homes have answered: of each only the tasks that it was asked about.
fn add_answered(chosen: &mut Vec<TaskId>, answers: Vec<(BTreeSet<TaskId>, Vec<String>)>) {
    for (asked, named) in answers {
        chosen.extend(asked.into_iter().filter(|id| named.iter().any(|name| name == id.as_str())));
    }
}

/// In the order in which the caller named them, each once.
fn in_order(ids: &[TaskId], chosen: &[TaskId]) -> Vec<String> {
    let mut left: BTreeSet<&TaskId> = chosen.iter().collect();
    ids.iter().filter(|id| left.remove(id)).map(TaskId::to_string).collect()
}
