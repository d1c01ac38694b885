//! What `run` tells the other processes.

use serde::{Deserialize, Serialize};

use crate::Signal;

/// `run.changed`: runs have something new for those who wait: events, commands, answers, or their end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunsChanged {
    pub runs: Vec<String>,
}

impl Signal for RunsChanged {
    const NAME: &'static str = "run.changed";
}
