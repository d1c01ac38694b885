//! What the operator asks.

use serde::{Deserialize, Serialize};

use crate::Request;

/// `search.peers`: how far the directories of other domains are copied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peers {}

impl Request for Peers {
    const METHOD: &'static str = "search.peers";
    type Result = SearchPeers;
}

/// The domains whose directories are copied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchPeers {
    pub peers: Vec<SearchPeer>,
}

/// How far the directory of one domain is copied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchPeer {
    pub issuer: String,
    pub state: String,
    pub cursor: Option<String>,
    pub agents: u64,
    pub last_ok_at: Option<String>,
    pub lag_ms: Option<u64>,
    pub last_error: Option<String>,
    pub hidden: bool,
}

/// `search.rebuild`: build the search index again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rebuild {}

impl Request for Rebuild {
    const METHOD: &'static str = "search.rebuild";
    type Result = RebuildRequested;
}

/// It is done in the background.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RebuildRequested {
    pub requested: bool,
}

/// `search.status`: how the directory of this server does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {}

impl Request for Status {
    const METHOD: &'static str = "search.status";
    type Result = SearchStatus;
}

/// The directory of this server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchStatus {
    pub agents: u64,
    pub sequence: i64,
    pub floor: i64,
    pub index: SearchIndexStatus,
    pub outbox_position: i64,
}

/// The index of the process that answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchIndexStatus {
    pub generation: i64,
    pub documents: u64,
    pub rebuilding: bool,
    pub progress: Option<f64>,
}
