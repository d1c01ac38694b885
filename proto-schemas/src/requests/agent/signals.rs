//! What `agent` tells the other processes.

use serde::{Deserialize, Serialize};

use crate::Signal;

/// `agent.changed`: `agent.changes` has something new.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentChanged {}

impl Signal for AgentChanged {
    const NAME: &'static str = "agent.changed";
}
