//! `run.subscribe`: be told of the events of a run over this connection.

use crate::RunService;
use crate::error::Error;
use crate::runs::printable;
use crate::runs::watching::SubscriptionKey;
use kernel::Caller;
use proto_schemas::requests::run::{Subscribe, SubscribedRun};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn subscribe(
        self: Arc<Self>,
        caller: Caller,
        params: Subscribe,
    ) -> Result<SubscribedRun, Error> {
        let agent = caller.connected_agent()?;
        printable("runId", &params.run_id)?;
        let run = self.run_of(&caller, &params.run_id).await?;
        let key =
            SubscriptionKey { aid: agent.aid.clone(), connection: agent.connection, run: run.row.id.clone() };
        let subscription = self.streams.begin(&key, self.ids.tagged("sub"))?;
        let after = params.after_seq.unwrap_or(run.row.last_seq);
        let (service, stop) = (self.clone(), self.stop.clone());
        self.tracker.spawn(async move {
            let telling = service.tell(&key, after);
            tokio::select! {
                () = stop.cancelled() => {}
                () = subscription.token.cancelled() => {}
                () = telling => service.streams.ended(&key, &subscription),
            }
        });
        Ok(SubscribedRun { subscribed: true, last_seq: run.row.last_seq })
    }
}
