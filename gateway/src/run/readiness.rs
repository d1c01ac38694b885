//! Which services a process waits for before it says that it is ready.

use crate::config::Config;
use kernel::Mesh;
use proto_schemas::find_namespace;
use std::time::Duration;
use tokio::time::timeout;

/// A service that is not up by then may be down for long; a server without one service still has the others.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// ca signs the certificates of the gateway and of auth: they cannot open without it.
pub async fn ca(config: &Config, mesh: &Mesh) -> anyhow::Result<()> {
    let needs_it = config.runs("auth") || (config.runs("gateway") && config.tls.cert.is_none());
    if !config.services.contains_key("ca") || !needs_it {
        return Ok(());
    }
    let mut changes = mesh.changes();
    while !mesh.has("ca") {
        tracing::info!("waiting for the ca service");
        changes.changed().await?;
    }
    Ok(())
}

/// All other services: a client that reads that we are ready may call something that needs them at once. This process already
/// answers while it waits, because the others wait for it in the same way. Gateways open last, so nothing waits for them.
pub async fn others(mesh: &Mesh) {
    let mut changes = mesh.changes();
    let down = || -> Vec<&str> {
        let missing = mesh.health().into_iter().filter(|(name, up)| !up && !is_of_gateway(name));
        missing.map(|(name, _)| name).collect()
    };
    let all_up = async { while !down().is_empty() && changes.changed().await.is_ok() {} };
    if timeout(READY_TIMEOUT, all_up).await.is_err() {
        tracing::warn!("ready without {}: not reachable", down().join(", "));
    }
}

fn is_of_gateway(namespace: &str) -> bool {
    find_namespace(namespace).is_some_and(|namespace| namespace.service == "gateway")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use kernel::{
        CallTerm, Caller, CallingAgent, OnAnswer, PendingAnswer, RemoteService, World, unavailable,
    };
    use proto_schemas::namespaces_of;
    use serde_json::value::RawValue;
    use std::future::ready;
    use std::path::Path;
    use std::sync::Arc;

    struct Unreachable;

    impl RemoteService for Unreachable {
        fn call(&self, _: Caller, method: &str, _: Option<&RawValue>, _: Duration) -> PendingAnswer {
            Box::pin(ready(Err(unavailable(method))))
        }

        fn send(&self, _: &CallingAgent, _: &str, _: Option<&RawValue>, _: CallTerm, _: OnAnswer) {}

        fn is_up(&self) -> bool {
            false
        }
    }

    #[tokio::test]
    async fn a_service_waits_for_other_services_and_for_no_gateway() {
        let world = World::local("aid.pub", Path::new("unused"), "sqlite:".parse().unwrap());
        for namespace in namespaces_of("gateway") {
            world.mesh.add_remote(namespace.name, Arc::new(Unreachable));
        }
        assert!(others(&world.mesh).now_or_never().is_some(), "the gateway opens when the others are ready");
        world.mesh.add_remote("message", Arc::new(Unreachable));
        assert!(others(&world.mesh).now_or_never().is_none(), "somebody may call it at once");
    }
}
