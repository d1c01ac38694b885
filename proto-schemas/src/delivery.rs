//! How messages reach the connections of an agent.

use serde::{Deserialize, Serialize};

/// Which of an agent's devices get a message. A client declares it in `auth.connect`, and a message may ask for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every device gets it, now or later.
    #[default]
    Fanout,
    /// One connection gets it, now.
    Queue,
}
