//! What a service removes when the AID of an agent ends, as a part of the service.

use super::Task;

/// The task that removes it, or that there is nothing to remove. Made by [`AgentRemover::removal`](crate::AgentRemover::removal).
pub struct AgentRemoval {
    pub(super) task: Option<Task>,
}

impl AgentRemoval {
    /// The service keeps nothing for an agent that it would have to remove, for this reason.
    pub fn nothing_kept(why: &'static str) -> AgentRemoval {
        tracing::debug!("removal of ended agents is disabled for a service: {why}");
        AgentRemoval { task: None }
    }

    pub(crate) fn by(task: Task) -> AgentRemoval {
        AgentRemoval { task: Some(task) }
    }
}
