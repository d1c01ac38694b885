//! What the gateway does every few seconds: it drops old state, and looks at which services are up.

use crate::gateway::GatewayState;
use std::sync::Arc;
use std::time::Duration;

pub async fn housekeeping(gateway: Arc<GatewayState>) {
    let mut every = tokio::time::interval(Duration::from_secs(10));
    let mut changes = gateway.mesh.changes();
    let mut losses = gateway.mesh.losses("message");
    loop {
        tokio::select! {
            _ = every.tick() => {
                gateway.admission.limits.forget_quiet();
                if let Some(federation) = &gateway.federation {
                    federation.forget_quiet();
                }
                gateway.delivery.forget_absent();
            }
            _ = changes.changed() => {}
            () = gateway.stop.cancelled() => return,
        }
        if let Some(change) = gateway.admission.refresh_capabilities() {
            gateway.delivery.capabilities_changed(&change);
        }
        // A message service that is killed after its commit and before it publishes leaves a message without an event.
        let lost = gateway.mesh.losses("message");
        if std::mem::replace(&mut losses, lost) != lost {
            gateway.delivery.all_missed();
        }
    }
}
