//! Copying a directory: its snapshots and the log of its changes.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Request;

/// `search.ap_info`: what a directory is and how far it has got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ApInfo {}

impl Request for ApInfo {
    const METHOD: &'static str = "search.ap_info";
    type Result = DirectoryInfo;
}

/// A directory and how far it has got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectoryInfo {
    pub ap_id: String,
    pub public: bool,
    pub capabilities: DirectoryCapabilities,
    pub current_snapshot_version: String,
    pub change_cursor_head: String,
    pub updated_at: String,
    pub agent_count: u64,
    pub log_floor_cursor: String,
    pub snapshot_versions: Vec<String>,
}

/// What a directory answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectoryCapabilities {
    pub query: bool,
    pub suggest: bool,
    pub snapshot: bool,
    pub changes: bool,
}

/// `search.snapshot`: read the whole directory as it was at one moment.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub version: Option<String>,
    pub cursor: Option<String>,
    pub limit: Option<i64>,
}

impl Request for Snapshot {
    const METHOD: &'static str = "search.snapshot";
    type Result = SnapshotPage;
}

/// A page of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotPage {
    pub snapshot_version: String,
    pub items: Vec<SnapshotItem>,
    pub next_cursor: Option<String>,
    pub has_more: bool,
    pub change_cursor: String,
}

/// An agent in a snapshot.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotItem {
    pub aid: String,
    pub agent_md_url: String,
    pub agent_md_sha256: String,
    pub source_ap: String,
    pub updated_at: String,
    pub agent_md: Option<String>,
    pub signed: Option<bool>,
}

/// `search.changes`: read what has changed in the directory since a cursor.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    pub cursor: Option<String>,
    pub limit: Option<i64>,
}

impl Request for Changes {
    const METHOD: &'static str = "search.changes";
    type Result = ChangesPage;
}

/// A page of the log of changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangesPage {
    pub from_cursor: String,
    pub next_cursor: String,
    pub changes: Vec<LoggedChange>,
    pub has_more: bool,
}

/// An agent that was listed, or is not any more.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoggedChange {
    pub sequence: i64,
    pub op: String,
    pub aid: String,
    pub updated_at: String,
    pub agent_md_sha256: Option<String>,
    pub agent_md: Option<String>,
    pub signed: Option<bool>,
    pub source_ap: Option<String>,
}

/// `search.notify`: tell the directory of another domain that this one has changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Notify {
    pub change_cursor_head: String,
}

impl Request for Notify {
    const METHOD: &'static str = "search.notify";
    type Result = SearchNotified;
}

/// It was told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchNotified {}
