//! `run.unsubscribe`: be told of them no more.

use crate::RunService;
use crate::error::Error;
use crate::runs::watching::SubscriptionKey;
use kernel::Caller;
use proto_schemas::requests::run::{Unsubscribe, UnsubscribedRun};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn unsubscribe(
        self: Arc<Self>,
        caller: Caller,
        params: Unsubscribe,
    ) -> Result<UnsubscribedRun, Error> {
        let agent = caller.connected_agent()?;
        let key =
            SubscriptionKey { aid: agent.aid.clone(), connection: agent.connection, run: params.run_id };
        Ok(UnsubscribedRun { unsubscribed: self.streams.end(&key) })
    }
}
