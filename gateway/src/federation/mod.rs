//! Federation: the gateways of other domains relay the calls of their agents to ours, and ours relays to them.
//!
//! A link is a WebSocket on which both gateways have proved which domain they are of (`federation.hello`). Calls go one way
//! over it, from the side that dialled. After hello a gateway is believed about which agent or service of its own domain is calling, and
//! about nothing else. What crosses, and for whom, is in the schemas.

mod discovery;
mod dispatch_event;
mod dispatched_events;
mod errors;
mod forward_federation;
mod forward_federation_batch;
mod inbound;
mod outbound;
mod peers;
mod query_sessions;
mod relay_origin;
pub mod resolve;
mod revoked_links;
mod rules;
mod status;
mod test_peer;
#[cfg(test)]
mod tests;
mod trust;
mod wire;

pub use inbound::{IN_FLIGHT, InboundPeer};
pub use wire::relay::RelayEventTargets;

use crate::address_limits::{KeyedRates, keyed_rates};
use crate::admission::{Admission, per_second};
use crate::config::Config;
use crate::connection::Sessions;
use crate::telemetry::Metrics;
use dispatched_events::DispatchedEvents;
use governor::{DefaultDirectRateLimiter, RateLimiter};
use inbound::{HelloNonces, InboundPeers, SeenRelays};
use kernel::{Aid, Bus, Clock, CpuPool, Ids, Mesh, Methods, Presence, Rpc, RpcError, World, unavailable};
use outbound::PeerPool;
use proto_schemas::requests::federation::PeerUp;
use rules::FederationRules;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use trust::{GatewayIdentity, PeerTrust};
use wire::relay::RelayIds;

/// Hellos that may have the list of trusted roots read again, in a second.
const TRUST_REFRESHES: u32 = 5;

/// What all links to and from other domains share.
pub struct Federation {
    pub config: Config,
    pub identity: GatewayIdentity,
    pub trust: PeerTrust,
    /// What may be called, by those of other domains, too.
    admission: Arc<Admission>,
    pub mesh: Arc<Mesh>,
    pub bus: Bus,
    pub presence: Presence,
    pub clock: Clock,
    pub ids: Ids,
    pub metrics: Arc<Metrics>,
    /// Of our links to other domains. They end after the last call is answered, because services use them.
    pub tracker: TaskTracker,
    pub stop: CancellationToken,
    /// Our links to other domains, and what waits for them.
    pub peers: PeerPool,
    /// The links of other domains to us.
    pub inbound: InboundPeers,
    /// What crosses.
    rules: FederationRules,
    nonces: HelloNonces,
    seen_relays: Arc<SeenRelays>,
    /// What our services dispatched.
    dispatched: Arc<DispatchedEvents>,
    /// Who is connected to this gateway; set once, before anybody can be.
    sessions: OnceLock<Arc<Sessions>>,
    opened_ms: i64,
    relay_ids: RelayIds,
    issuer_rate: KeyedRates<Arc<str>>,
    agent_rate: KeyedRates<Aid>,
    /// Of services of other domains, by name and domain.
    service_rate: KeyedRates<String>,
    /// Where the certificates and signatures of hellos are verified.
    cpu: Arc<CpuPool>,
    /// How often the list of trusted roots is read again because of a hello.
    trust_refreshes: DefaultDirectRateLimiter,
}

impl Federation {
    pub async fn open(
        config: &Config,
        world: &World,
        metrics: &Arc<Metrics>,
        admission: &Arc<Admission>,
    ) -> anyhow::Result<Arc<Federation>> {
        let trust = PeerTrust::new(world.mesh.clone(), &config.federation);
        trust.refresh().await?;
        Ok(Arc::new(Federation {
            config: config.clone(),
            identity: GatewayIdentity::open(world).await?,
            trust,
            admission: admission.clone(),
            mesh: world.mesh.clone(),
            bus: world.bus.clone(),
            presence: world.presence.clone(),
            clock: world.clock.clone(),
            ids: world.ids.clone(),
            metrics: metrics.clone(),
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
            peers: PeerPool::new(&config.federation, metrics),
            inbound: InboundPeers::default(),
            rules: FederationRules::new(&config.federation.namespaces),
            nonces: HelloNonces::default(),
            seen_relays: Arc::default(),
            dispatched: Arc::default(),
            sessions: OnceLock::new(),
            opened_ms: world.clock.now_ms(),
            relay_ids: RelayIds::new(&world.ids),
            issuer_rate: keyed_rates(per_second(config.federation.relays_per_second)),
            agent_rate: keyed_rates(per_second(config.federation.relays_per_agent)),
            service_rate: keyed_rates(per_second(config.federation.relays_per_agent)),
            cpu: world.cpu.clone(),
            trust_refreshes: RateLimiter::direct(per_second(TRUST_REFRESHES)),
        }))
    }

    /// The methods that services call.
    pub fn methods(self: &Arc<Self>) -> Methods {
        Rpc::new(self.clone())
            .method(Federation::dispatch_event)
            .method(Federation::forward_federation)
            .method(Federation::forward_federation_batch)
            .method(Federation::peers)
            .method(Federation::query_sessions)
            .method(Federation::status)
            .method(Federation::test_peer)
            .into()
    }

    /// Services may ask for the sessions of this gateway from now on.
    pub fn show_sessions(&self, sessions: &Arc<Sessions>) {
        let _ = self.sessions.set(sessions.clone());
    }

    fn sessions(&self) -> Result<&Arc<Sessions>, RpcError> {
        self.sessions.get().ok_or_else(|| unavailable("gateway"))
    }

    /// Forgets the rate limits of domains, agents and services that have not called lately.
    pub fn forget_quiet(&self) {
        self.issuer_rate.retain_recent();
        self.agent_rate.retain_recent();
        self.service_rate.retain_recent();
    }

    /// Our own domain.
    pub fn issuer(&self) -> &str {
        &self.config.issuer
    }

    /// A domain is known to be reachable: whoever has something for it may try again at once.
    fn peer_is_reachable(&self, issuer: &str) {
        self.peers.mark_reachable(issuer);
        self.bus.signal(&PeerUp { issuer: issuer.to_owned() });
    }
}
