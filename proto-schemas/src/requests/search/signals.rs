//! What `search` tells the other processes.

use serde::{Deserialize, Serialize};

use crate::Signal;

/// `search.log_changed`: the change log of this directory has something new.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogChanged {}

impl Signal for LogChanged {
    const NAME: &'static str = "search.log_changed";
}

/// `search.peer_changed`: the directory of another domain has something new.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerChanged {
    pub issuer: String,
}

impl Signal for PeerChanged {
    const NAME: &'static str = "search.peer_changed";
}
