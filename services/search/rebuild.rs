//! `search.rebuild`: have every process make its index anew, in the background. Searches are answered from the old one meanwhile.

use super::{Error, SearchService};
use kernel::Caller;
use proto_schemas::requests::search::{Rebuild, RebuildRequested};
use std::sync::Arc;

impl SearchService {
    pub(super) async fn rebuild(self: Arc<Self>, _: Caller, _: Rebuild) -> Result<RebuildRequested, Error> {
        self.enabled()?;
        self.store.ask_for_rebuild().await?;
        self.log_changed(false);
        Ok(RebuildRequested { requested: true })
    }
}
