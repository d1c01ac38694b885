//! Other domains: their gateways come to ours with the calls of their agents, and ours goes to them.
//!
//! A link is a WebSocket on which both gateways have proved whose they are (`federation.hello`). Calls go one way over
//! it, from the side that dialled. After hello we believe a gateway about who of its own domain is calling, and nothing
//! else.

mod answer;
mod breaker;
mod card;
mod dial;
mod discover;
mod fetch;
mod forward_federation;
mod forward_federation_batch;
mod hello;
mod job;
mod line;
mod link;
mod peers;
mod pool;
pub mod resolve;
mod revocation;
mod test_peer;
#[cfg(test)]
mod tests;
mod tls;
mod trouble;
mod trust;
mod wire;

pub use card::{Card, Peer};
pub use hello::{HelloParams, Limits, Welcome};
pub use pool::Peers;
pub use trust::Trust;

use crate::config::Config;
use crate::telemetry::Metrics;
use services::kernel::{Bus, Clock, Ids, Mesh, Methods, Rpc, World};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What every link to and from other domains shares.
pub struct Federation {
    pub config: Config,
    pub card: Card,
    pub trust: Trust,
    pub mesh: Arc<Mesh>,
    pub bus: Bus,
    pub clock: Clock,
    pub ids: Ids,
    pub metrics: Arc<Metrics>,
    /// Our links to others, and what waits for them.
    pub peers: Peers,
    /// Links to others. They end before the rooms close.
    pub tracker: TaskTracker,
    pub stop: CancellationToken,
}

impl Federation {
    pub async fn open(
        config: &Config,
        world: &World,
        metrics: &Arc<Metrics>,
    ) -> anyhow::Result<Arc<Federation>> {
        let trust = Trust::new(world.mesh.clone(), &config.federation);
        trust.refresh().await?;
        Ok(Arc::new(Federation {
            config: config.clone(),
            card: Card::open(world).await?,
            trust,
            mesh: world.mesh.clone(),
            bus: world.bus.clone(),
            clock: world.clock.clone(),
            ids: world.ids.clone(),
            metrics: metrics.clone(),
            peers: Peers::new(config.federation.peers, metrics),
            tracker: TaskTracker::new(),
            stop: world.stop.clone(),
        }))
    }

    /// Our own domain.
    pub fn issuer(&self) -> &str {
        &self.config.issuer
    }
}

/// The methods of the namespace `gateway`: what rooms and the operator ask of the door.
pub fn methods(federation: &Arc<Federation>) -> Methods {
    Rpc::new(federation.clone())
        .method("gateway.forward_federation", Federation::forward_federation)
        .method("gateway.forward_federation_batch", Federation::forward_federation_batch)
        .method("gateway.peers", Federation::peers)
        .method("gateway.test_peer", Federation::test_peer)
        .into()
}
