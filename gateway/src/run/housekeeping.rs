//! What the gateway does every few seconds, whoever is there: it forgets, and it looks at what changed.

use crate::events;
use crate::gateway::Gateway;
use std::sync::Arc;
use std::time::Duration;

pub async fn housekeeping(gateway: Arc<Gateway>) {
    let mut every = tokio::time::interval(Duration::from_secs(10));
    let mut changes = gateway.mesh.changes();
    let mut losses = gateway.mesh.losses("message");
    loop {
        tokio::select! {
            _ = every.tick() => {
                gateway.limits.forget_quiet();
                if let Some(federation) = gateway.federation() {
                    federation.forget_quiet();
                }
                gateway.event_order.keep(|aid| !gateway.registry.of_agent(aid).is_empty());
            }
            _ = changes.changed() => {}
            () = gateway.stop.cancelled() => return,
        }
        events::refresh_capabilities(&gateway);
        // Whoever is killed between his commit and his bell leaves a message that nobody was told of.
        let lost = gateway.mesh.losses("message");
        if std::mem::replace(&mut losses, lost) != lost {
            gateway.resync.missed(gateway.registry.agents());
        }
    }
}
