//! The peer queues of all other domains: made on demand, bounded in number and in what waits in them.

use super::dial::DIAL_TIMEOUT;
use super::new_domains::{DialAsker, DomainBudgets};
use super::open_links::OpenLinks;
use super::peer_counters::QueueLoad;
use super::peer_queue::{PeerQueue, Pushed};
use super::peer_task;
use super::pending_relay::{PendingRelay, RelayOutcome};
use crate::config::FederationConfig;
use crate::federation::Federation;
use crate::federation::discovery::{Discovery, RevocationCheck, RevocationRefusal};
use crate::federation::errors::{DialPhase, LinkFailure};
use crate::federation::trust::PeerGateway;
use crate::federation::wire::relay::{Relay, RelayText};
use crate::telemetry::Metrics;
use kernel::RpcError;
use parking_lot::RwLock;
use proto_schemas::requests::gateway::ListedPeer;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long an event may wait to be sent.
const EVENT_TIMEOUT: Duration = Duration::from_secs(15);

pub struct PeerPool {
    queues: RwLock<HashMap<String, Arc<PeerQueue>>>,
    most_peers: usize,
    load: Arc<QueueLoad>,
    metrics: Arc<Metrics>,
    pub(super) domains: DomainBudgets,
    pub open_links: OpenLinks,
    pub discovery: Discovery,
    pub revocation: RevocationCheck,
}

impl PeerPool {
    pub fn new(settings: &FederationConfig, metrics: &Arc<Metrics>) -> PeerPool {
        PeerPool {
            queues: RwLock::default(),
            most_peers: settings.peers,
            load: Arc::default(),
            metrics: metrics.clone(),
            domains: DomainBudgets::new(settings),
            open_links: OpenLinks::default(),
            discovery: Discovery::default(),
            revocation: RevocationCheck::default(),
        }
    }

    /// Queues a call of `asker`, the AID of an agent or the name of a service. Once this returns, its position in the order is fixed;
    /// the future is its outcome. It needs no timer of its own: the task of the queue ends relays whose deadline has passed.
    pub fn begin(
        &self,
        fed: &Arc<Federation>,
        issuer: &str,
        asker: &str,
        text: RelayText,
        within: Duration,
    ) -> Result<impl Future<Output = RelayOutcome> + use<>, RpcError> {
        let queue = self.queue(issuer, asker)?;
        let (answer, receiver) = oneshot::channel();
        let relay = PendingRelay::new(&queue.counters, text, Some(answer), within);
        push(fed, &queue, relay);
        Ok(async move {
            // A relay always sends an outcome before it is dropped.
            receiver.await.unwrap_or_else(|dropped| Err(RpcError::internal(dropped)))
        })
    }

    /// Queues an event, whose outcome nobody waits for. False if there is no space for it, or the last dial failed a moment
    /// ago.
    pub fn send_event(&self, fed: &Arc<Federation>, issuer: &str, asker: &str, relay: &Relay<'_>) -> bool {
        let queued = || {
            let queue = self.queue(issuer, asker).ok()?;
            let relay = PendingRelay::new(&queue.counters, relay.text().ok()?, None, EVENT_TIMEOUT);
            Some(push(fed, &queue, relay))
        };
        queued().unwrap_or(false)
    }

    pub fn list(&self) -> Vec<ListedPeer> {
        let mut peers: Vec<ListedPeer> =
            self.queues.read().values().map(|queue| queue.peer_state()).collect();
        peers.sort_by(|a, b| a.issuer.cmp(&b.issuer));
        peers
    }

    /// The gateway of a domain has proved which domain it is of: what failed a moment ago may be tried at once.
    pub fn mark_reachable(&self, issuer: &str) {
        self.domains.reached(issuer);
        self.discovery.forget_failure(issuer);
        if let Some(queue) = self.queues.read().get(issuer) {
            queue.set_asker(None);
            queue.reset_breaker();
        }
    }

    /// Whether the domain of a gateway stands by the certificate of its gateway, as far as it can be asked.
    pub async fn check_revocation(
        &self,
        fed: &Federation,
        peer: &PeerGateway,
    ) -> Result<(), RevocationRefusal> {
        let Ok(urls) = self.discovery.find(fed, &peer.issuer).await else { return Ok(()) };
        let Some(url) = urls.first() else { return Ok(()) };
        self.revocation.check(fed, url, peer).await
    }

    /// Sets the metric of how long the oldest relay of all queues has waited.
    pub fn measure_oldest(&self) {
        let queues = self.queues.read();
        let oldest = queues.values().map(|queue| queue.counters.oldest_ms.load(Ordering::Relaxed)).max();
        self.metrics.federation_oldest_seconds.set(oldest.unwrap_or(0) as f64 / 1000.0);
    }

    /// Whether there is a queue for it, so that its name was checked before.
    pub fn has_queue(&self, issuer: &str) -> bool {
        self.queues.read().contains_key(issuer)
    }

    fn queue(&self, issuer: &str, asker: &str) -> Result<Arc<PeerQueue>, RpcError> {
        let queues = self.queues.read();
        if let Some(queue) = queues.get(issuer).filter(|queue| queue.is_known() || !queue.is_idle()) {
            return Ok(queue.clone());
        }
        drop(queues);
        self.open_queue(issuer, asker)
    }

    /// The queue of a domain for which there is none, or one that is idle and of a domain that was never reached: whoever has it dialled
    /// once more is asked for a budget like the first one.
    fn open_queue(&self, issuer: &str, asker: &str) -> Result<Arc<PeerQueue>, RpcError> {
        let mut queues = self.queues.write();
        if let Some(queue) = queues.get(issuer).filter(|queue| queue.is_known() || is_in_use(queue)) {
            return Ok(queue.clone());
        }
        let asker = match self.domains.is_known(issuer) {
            true => None,
            false => {
                let new = queues.values().filter(|queue| is_in_use(queue));
                let busy: Vec<Arc<DialAsker>> = new.filter_map(|queue| queue.asker()).collect();
                let allowed = self.domains.asker(asker, &busy);
                Some(allowed.map_err(|failure| failure.error(issuer, Some(DIAL_TIMEOUT)))?)
            }
        };
        if let Some(queue) = queues.get(issuer) {
            queue.set_asker(asker);
            return Ok(queue.clone());
        }
        if queues.len() >= self.most_peers {
            queues.retain(|_, queue| is_in_use(queue));
        }
        if queues.len() >= self.most_peers {
            let sentence = format!("this gateway has links to {} other domains already", self.most_peers);
            return Err(LinkFailure::new(DialPhase::Connect, "pool_full", sentence).error(issuer, None));
        }
        let queue = Arc::new(PeerQueue::new(issuer, &self.load, &self.metrics));
        queue.set_asker(asker);
        queues.insert(issuer.to_owned(), queue.clone());
        Ok(queue)
    }
}

/// Whether a queue has to stay. Asked under the lock of all queues: whoever holds one of them got it under that lock, and may be about to
/// push to it.
fn is_in_use(queue: &Arc<PeerQueue>) -> bool {
    Arc::strong_count(queue) > 1 || !queue.is_idle()
}

/// Queues a relay, and starts the task of the queue if none runs; false if the relay was refused.
fn push(fed: &Arc<Federation>, queue: &Arc<PeerQueue>, relay: PendingRelay) -> bool {
    match queue.push(relay) {
        Pushed::Refused => false,
        Pushed::Queued => true,
        Pushed::NeedsTask(task) => {
            fed.tracker.spawn(peer_task::run(task, fed.clone()));
            true
        }
    }
}
