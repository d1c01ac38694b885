//! What gateways announce to each other, and what one of them has not announced yet.

use super::AnnouncedSession;
use crate::Aid;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// The field of a gateway's list that holds its version. Without one the list is being written.
pub(super) const VERSION: &str = "#";
/// Past so many changes it is cheaper to write the whole list.
const MOST_CHANGES: usize = 8192;

/// The connections to one gateway, by their id.
pub(super) type SessionList = HashMap<u64, (Aid, Arc<AnnouncedSession>)>;

/// What a gateway publishes, at least every two seconds.
#[derive(Serialize, Deserialize)]
pub(super) struct PresenceUpdate {
    pub gateway: Arc<str>,
    /// The version before these changes: each change makes the next one.
    pub after: u64,
    pub sent_ms: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<PresenceChange>,
    /// The gateway stops: there is no update after this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stops: bool,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PresenceChange {
    Connected(Aid, Arc<AnnouncedSession>),
    Disconnected(Aid, u64),
}

/// What has not been announced yet.
pub(super) struct PendingChanges {
    pub changes: Vec<PresenceChange>,
    /// The version of the list in this process, and the one that was announced.
    pub version: u64,
    pub announced: u64,
    /// Whether the list in Redis is not ours any more: at the beginning, and whenever something went wrong.
    pub rewrite: bool,
}

impl Default for PendingChanges {
    fn default() -> PendingChanges {
        PendingChanges { changes: Vec::new(), version: 0, announced: 0, rewrite: true }
    }
}

impl PendingChanges {
    pub fn add(&mut self, change: PresenceChange) {
        self.version += 1;
        self.changes.push(change);
        if self.changes.len() > MOST_CHANGES {
            self.changes.clear();
            self.rewrite = true;
        }
    }
}
