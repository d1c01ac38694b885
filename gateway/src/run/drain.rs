//! How a server stops: every call is answered, and nothing is closed that something else still uses.

use crate::connection::{CloseReason, Connection};
use crate::gateway::GatewayState;
use crate::mesh::MeshContext;
use crate::signals::Signals;
use kernel::World;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio_util::task::TaskTracker;

/// What a running server is made of.
pub struct RunningServer {
    pub gateway: Option<Arc<GatewayState>>,
    /// Mesh links from other processes, and calls of the operator.
    pub calls: TaskTracker,
    pub world: World,
    pub mesh_context: Arc<MeshContext>,
}

impl RunningServer {
    /// Stops within the limit; at once on a second signal.
    pub async fn stop(self, limit: Duration, signals: &mut Signals) {
        tracing::info!("stopping: refusing new connections, finishing calls in flight");
        self.world.stop.cancel();
        tokio::select! {
            done = tokio::time::timeout(limit, self.drain()) => match done {
                Ok(()) => tracing::info!("stopped"),
                Err(_) => tracing::warn!("stopped; some calls did not finish within {limit:?}"),
            },
            () = signals.wait() => {
                tracing::warn!("second signal: exiting immediately");
                std::process::exit(1);
            }
        }
    }

    /// Each connection is closed when its calls are answered, then the mesh links from other processes; then nobody can call
    /// the services any more, and they close their stores; the mesh links to other processes go last, because services use them.
    async fn drain(self) {
        let RunningServer { gateway, calls, world, mesh_context } = self;
        let federation = gateway.as_ref().and_then(|gateway| gateway.federation.clone());
        if let Some(gateway) = gateway {
            drain_connections(&gateway, Duration::from_millis(gateway.config.drain_window_ms())).await;
            finish(&gateway.tracker).await;
        }
        finish(&calls).await;
        for namespace in world.mesh.namespaces() {
            world.mesh.remove(namespace);
        }
        finish(&world.tracker).await;
        if let Some(federation) = federation {
            federation.stop.cancel();
            finish(&federation.tracker).await;
        }
        world.bus.close().await;
        mesh_context.stop.cancel();
        finish(&mesh_context.tracker).await;
    }
}

async fn finish(tracker: &TaskTracker) {
    tracker.close();
    tracker.wait().await;
}

/// Closes all connections, a share at a time over the window, so that the other gateways do not get all clients at once.
/// Those that are not closed yet are served as before. Clients reconnect by themselves after a 1012, which is why they get
/// no disconnect event.
async fn drain_connections(gateway: &GatewayState, window: Duration) {
    let began = Instant::now();
    let at_first = gateway.sessions.all().len();
    loop {
        let connections = gateway.sessions.all();
        if connections.is_empty() {
            return;
        }
        let passed = began.elapsed().as_secs_f64() / window.as_secs_f64().max(f64::MIN_POSITIVE);
        let may_remain = (at_first as f64 * (1.0 - passed).max(0.0)) as usize;
        for connection in connections.iter().skip(may_remain) {
            connection.drains.store(true, Ordering::Relaxed);
        }
        let ready = |connection: &&Arc<Connection>| {
            connection.drains.load(Ordering::Relaxed) && connection.in_flight.load(Ordering::Relaxed) == 0
        };
        for connection in connections.iter().filter(ready) {
            connection.outbox.close(CloseReason::plain(1012, "the server restarts"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
