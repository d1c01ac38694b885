//! Other domains: their gateways come to ours with the calls of their agents, and ours goes to them.
//!
//! A link is a WebSocket on which both gateways have proved whose they are (`federation.hello`). Calls go one way over
//! it, from the side that dialled. After hello we believe a gateway about who of its own domain is calling, and nothing
//! else.

mod accept;
mod answer;
mod breaker;
mod card;
mod dial;
mod discover;
mod dispatch_event;
mod fetch;
mod forward_federation;
mod forward_federation_batch;
mod frames;
mod hello;
mod job;
mod line;
mod link;
mod peer_state;
mod peers;
mod pool;
mod relay;
mod relay_batch;
mod resolve;
mod revocation;
mod seen;
mod test_peer;
#[cfg(test)]
mod tests;
mod tls;
mod trouble;
mod trust;
mod well_known;
mod wire;
mod work;

pub use accept::{Guest, IN_FLIGHT};
pub use card::{Card, Peer};
pub use hello::{HelloParams, Limits, Welcome};
pub use pool::Peers;
pub use trust::Trust;
use wire::RelayIds;
pub use wire::Targets;

use crate::admission::per_second;
use crate::config::Config;
use crate::telemetry::Metrics;
use accept::Guests;
use governor::{DefaultKeyedRateLimiter, RateLimiter};
use seen::{Nonces, Relays};
use services::kernel::{Aid, Bus, Clock, Ids, Mesh, Methods, Rpc, RpcError, World, codes};
use std::fmt::Display;
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
    /// Links to others. They end after the last call is answered, because services use them.
    pub tracker: TaskTracker,
    pub stop: CancellationToken,
    /// Our links to others, and what waits for them.
    pub peers: Peers,
    pub guests: Guests,
    nonces: Nonces,
    relays: Arc<Relays>,
    relay_ids: RelayIds,
    issuer_rate: DefaultKeyedRateLimiter<Arc<str>>,
    agent_rate: DefaultKeyedRateLimiter<Aid>,
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
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
            peers: Peers::new(config.federation.peers, metrics),
            guests: Guests::default(),
            nonces: Nonces::default(),
            relays: Arc::default(),
            relay_ids: RelayIds::new(&world.ids),
            issuer_rate: RateLimiter::keyed(per_second(config.federation.relays_per_second)),
            agent_rate: RateLimiter::keyed(per_second(config.federation.relays_per_agent)),
        }))
    }

    /// What the services ask of the gateway.
    pub fn methods(self: &Arc<Self>) -> Methods {
        Rpc::new(self.clone())
            .method("gateway.dispatch_event", Federation::dispatch_event)
            .method("gateway.forward_federation", Federation::forward_federation)
            .method("gateway.forward_federation_batch", Federation::forward_federation_batch)
            .method("gateway.peers", Federation::peers)
            .method("gateway.test_peer", Federation::test_peer)
            .into()
    }

    /// Forgets those that have been quiet.
    pub fn forget_quiet(&self) {
        self.issuer_rate.retain_recent();
        self.agent_rate.retain_recent();
    }

    /// Our own domain.
    pub fn issuer(&self) -> &str {
        &self.config.issuer
    }
}

/// A call that may not cross, and why.
fn refused(reason: &str, sentence: impl Display) -> RpcError {
    RpcError::new(codes::FEDERATION_REFUSED, sentence).with("reason", reason)
}
