//! What the gateway does every few seconds: it drops old state, and looks at which services are up.

use crate::gateway::GatewayState;
use kernel::Mesh;
use std::sync::Arc;
use std::time::Duration;

pub async fn housekeeping(gateway: Arc<GatewayState>) {
    let mut every = tokio::time::interval(Duration::from_secs(10));
    let mut changes = gateway.mesh.changes();
    let mut losses = losses_of(&gateway.mesh);
    loop {
        tokio::select! {
            _ = every.tick() => {
                gateway.admission.forget_quiet();
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
        // A service that is killed after its commit and before it publishes leaves a change without an event.
        let lost = losses_of(&gateway.mesh);
        if std::mem::replace(&mut losses, lost) != lost {
            gateway.delivery.all_missed();
        }
    }
}

/// How often a process of a namespace that is told of sessions went away without draining.
fn losses_of(mesh: &Mesh) -> u64 {
    let told = proto_schemas::namespaces().iter().filter(|namespace| namespace.sessions);
    told.map(|namespace| mesh.losses(namespace.name)).sum()
}
