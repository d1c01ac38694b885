//! What `run` tells the other processes.

use serde::{Deserialize, Serialize};

use crate::{Aid, Signal};

/// `run.changed`: runs have something new for those who wait: events, commands, answers, or their end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunsChanged {
    pub runs: Vec<String>,
}

impl Signal for RunsChanged {
    const NAME: &'static str = "run.changed";
}

/// `run.subscription_ended`: a connection is not told of a run any more by any process but one. The connection may have subscribed again,
/// and its calls reach any process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSubscriptionEnded {
    pub aid: Aid,
    pub connection: u64,
    pub run_id: String,
    /// The subscription that goes on.
    pub except: Option<String>,
}

impl Signal for RunSubscriptionEnded {
    const NAME: &'static str = "run.subscription_ended";
}
