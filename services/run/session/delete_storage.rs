//! `session.delete_storage`: remove what is stored for a session.

use crate::RunService;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::session::{DeleteStorage, RunSessionStorage};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn session_delete_storage(
        self: Arc<Self>,
        caller: Caller,
        DeleteStorage { session_id }: DeleteStorage,
    ) -> Result<RunSessionStorage, Error> {
        self.visible_session(&caller, &session_id, "").await?;
        // The row first: from its commit on no runner is started in the folder.
        if self.store.evict_session(&session_id, self.clock.now_ms()).await? {
            self.try_to_remove(&session_id).await;
        }
        let session = self.visible_session(&caller, &session_id, "").await?;
        self.shown_storage(session).await
    }
}
