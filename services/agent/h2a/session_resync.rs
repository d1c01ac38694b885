//! `h2a.session_resync`: a device may have missed events, and what its agent should be asked about is published again.

use crate::{AgentService, Error};
use kernel::{Audience, Caller};
use proto_schemas::requests::h2a::{PendingPublished, SessionResync};
use std::sync::Arc;

impl AgentService {
    pub(crate) async fn session_resync(
        self: Arc<Self>,
        _: Caller,
        params: SessionResync,
    ) -> Result<PendingPublished, Error> {
        let SessionResync { aid, device_id, .. } = params;
        let to = Audience::Instance { aid: aid.clone(), device: Some(device_id), slot: None };
        let published = self.publish_pending(&aid, &to).await?;
        Ok(PendingPublished { published: i64::try_from(published).unwrap_or(i64::MAX) })
    }
}
