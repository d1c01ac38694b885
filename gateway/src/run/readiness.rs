//! Which services a process waits for before it says that it is ready.

use crate::config::Config;
use services::kernel::Mesh;
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
        let missing = mesh.health().into_iter().filter(|(name, up)| !up && *name != "gateway");
        missing.map(|(name, _)| name).collect()
    };
    let all_up = async { while !down().is_empty() && changes.changed().await.is_ok() {} };
    if timeout(READY_TIMEOUT, all_up).await.is_err() {
        tracing::warn!("ready without {}: not reachable", down().join(", "));
    }
}
