//! `search.rebuild`: have every process make its index anew, in the background. Searches are answered from the old one meanwhile.

use super::{Error, SearchService};
use kernel::Caller;
use proto_schemas::requests::search::RebuildRequested;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct RebuildParams {}

impl SearchService {
    pub(super) async fn rebuild(
        self: Arc<Self>,
        _: Caller,
        _: RebuildParams,
    ) -> Result<RebuildRequested, Error> {
        self.enabled()?;
        self.store.ask_for_rebuild().await?;
        self.log_changed(false);
        Ok(RebuildRequested { requested: true })
    }
}
