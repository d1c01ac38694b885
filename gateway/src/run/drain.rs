//! How a server stops: everybody is answered, and nobody closes what another one still uses.

use crate::gateway::Gateway;
use crate::mesh::MeshContext;
use crate::session::{CloseReason, Link};
use crate::signals::Signals;
use services::kernel::World;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio_util::task::TaskTracker;

/// What a running server is made of.
pub struct Running {
    pub gateway: Option<Arc<Gateway>>,
    /// Links from other processes, and calls of the operator.
    pub calls: TaskTracker,
    pub world: World,
    pub wiring: Arc<MeshContext>,
}

impl Running {
    /// Stops within the limit; at once, if it is told a second time.
    pub async fn stop(self, limit: Duration, signals: &mut Signals) {
        tracing::info!("stopping: no new connections, finishing what is under way");
        self.world.stop.cancel();
        tokio::select! {
            done = tokio::time::timeout(limit, self.drain()) => match done {
                Ok(()) => tracing::info!("stopped"),
                Err(_) => tracing::warn!("stopped with calls unanswered: they took longer than {limit:?}"),
            },
            () = signals.wait() => {
                tracing::warn!("told to stop twice: leaving at once");
                std::process::exit(1);
            }
        }
    }

    /// Each session leaves when its calls are answered, then the links from other processes do; then nobody can call the
    /// services any more, and they close their stores; the links to other processes go last, because services use them.
    async fn drain(self) {
        let Running { gateway, calls, world, wiring } = self;
        let federation = gateway.as_ref().and_then(|gateway| gateway.federation().cloned());
        if let Some(gateway) = gateway {
            send_away(&gateway, Duration::from_millis(gateway.config.drain_window_ms())).await;
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
        wiring.stop.cancel();
        finish(&wiring.tracker).await;
    }
}

async fn finish(tracker: &TaskTracker) {
    tracker.close();
    tracker.wait().await;
}

/// Sends everybody away, a share at a time over the window, so that the other gateways do not get all of them at once.
/// Whoever waits for its turn is served as ever. Clients come back by themselves after a 1012, which is why they get no
/// disconnect event.
async fn send_away(gateway: &Gateway, window: Duration) {
    let began = Instant::now();
    let everybody = gateway.registry.all().len();
    loop {
        let links = gateway.registry.all();
        if links.is_empty() {
            return;
        }
        let passed = began.elapsed().as_secs_f64() / window.as_secs_f64().max(f64::MIN_POSITIVE);
        let may_stay = (everybody as f64 * (1.0 - passed).max(0.0)) as usize;
        for link in links.iter().skip(may_stay) {
            link.leaves.store(true, Ordering::Relaxed);
        }
        let ready = |link: &&Arc<Link>| {
            link.leaves.load(Ordering::Relaxed) && link.in_flight.load(Ordering::Relaxed) == 0
        };
        for link in links.iter().filter(ready) {
            link.outbox.close(CloseReason::plain(1012, "the server restarts"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
