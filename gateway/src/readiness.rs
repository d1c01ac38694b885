//! Whom a process waits for before it says that it is ready.

use crate::config::Config;
use services::kernel::Mesh;
use std::time::Duration;
use tokio::time::timeout;

/// Who is not there by then may be away for long; a server without one of its parts still has the others.
const PATIENCE: Duration = Duration::from_secs(5);

/// The authority signs what the gateway and the auth service show of themselves: they cannot begin without it.
pub async fn authority(config: &Config, mesh: &Mesh) -> anyhow::Result<()> {
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

/// Everybody else: whoever reads that we are ready may ask for something that needs them at once. Waited for when this
/// process already answers, because the others wait for it just so. The gateways open last, so nobody waits for them.
pub async fn everybody(mesh: &Mesh) {
    let mut changes = mesh.changes();
    let away = || -> Vec<&str> {
        let missing = mesh.health().into_iter().filter(|(name, up)| !up && *name != "gateway");
        missing.map(|(name, _)| name).collect()
    };
    let all_there = async { while !away().is_empty() && changes.changed().await.is_ok() {} };
    if timeout(PATIENCE, all_there).await.is_err() {
        tracing::warn!("ready without {}: nobody answers there", away().join(", "));
    }
}
