//! `search.status`: how the directory does, for the operator.

use super::{Error, SearchService};
use kernel::Caller;
use proto_schemas::requests::search::{SearchIndexStatus, SearchStatus, Status};
use std::sync::Arc;

impl SearchService {
    pub(super) async fn status(self: Arc<Self>, _: Caller, _: Status) -> Result<SearchStatus, Error> {
        self.enabled()?;
        let state = self.store.state().await?;
        let (index, progress) = (self.index(), self.rebuilding.progress());
        Ok(SearchStatus {
            agents: u64::try_from(self.store.listed().await?).unwrap_or_default(),
            sequence: state.sequence,
            floor: state.floor,
            index: SearchIndexStatus {
                generation: index.generation(),
                documents: index.documents(),
                rebuilding: progress.is_some(),
                progress,
            },
            outbox_position: state.position,
        })
    }
}
