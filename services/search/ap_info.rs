//! `search.ap_info`: what this directory is, and how far it has got.

use super::cursor::ChangeCursor;
use super::{Error, SearchService};
use kernel::{Caller, iso};
use proto_schemas::requests::search::{ApInfo, DirectoryCapabilities, DirectoryInfo};
use std::sync::Arc;

impl SearchService {
    pub(super) async fn ap_info(self: Arc<Self>, _: Caller, _: ApInfo) -> Result<DirectoryInfo, Error> {
        self.enabled()?;
        let snapshot_versions = self.snapshot_versions().await?;
        let state = self.store.state().await?;
        let public = self.settings.public;
        Ok(DirectoryInfo {
            ap_id: self.ap_id.clone(),
            public,
            capabilities: DirectoryCapabilities { query: true, suggest: true, snapshot: true, changes: true },
            current_snapshot_version: snapshot_versions.first().cloned().unwrap_or_default(),
            change_cursor_head: ChangeCursor(state.sequence).to_string(),
            updated_at: iso(state.changed_at),
            agent_count: u64::try_from(self.store.listed().await?).unwrap_or_default(),
            log_floor_cursor: ChangeCursor(state.floor).to_string(),
            snapshot_versions,
        })
    }

    /// The snapshots that can be read, the newest first.
    pub(super) async fn snapshot_versions(&self) -> Result<Vec<String>, Error> {
        Ok(self.snapshots().await?.into_iter().map(|row| row.version).collect())
    }
}
