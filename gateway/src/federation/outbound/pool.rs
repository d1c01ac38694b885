//! The peer queues of all other domains: made on demand, bounded in number and in what waits in them.

use super::peer_counters::QueueLoad;
use super::peer_queue::{PeerQueue, Pushed};
use super::peer_state::PeerState;
use super::peer_task;
use super::pending_relay::{PendingRelay, RelayOutcome};
use crate::federation::Federation;
use crate::federation::discovery::{Discovery, RevocationCheck};
use crate::federation::errors::{DialPhase, LinkFailure};
use crate::federation::wire::relay::{Relay, RelayText};
use crate::telemetry::Metrics;
use certs::Certificate;
use parking_lot::RwLock;
use services::kernel::RpcError;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// Domains that may be dialled at the same time.
const DIALLING: usize = 64;
/// How long an event may wait to be sent.
const EVENT_TIMEOUT: Duration = Duration::from_secs(15);

pub struct PeerPool {
    queues: RwLock<HashMap<String, Arc<PeerQueue>>>,
    most_peers: usize,
    load: Arc<QueueLoad>,
    metrics: Arc<Metrics>,
    pub(super) dialling: Semaphore,
    pub discovery: Discovery,
    pub revocation: RevocationCheck,
}

impl PeerPool {
    pub fn new(most_peers: usize, metrics: &Arc<Metrics>) -> PeerPool {
        PeerPool {
            queues: RwLock::default(),
            most_peers,
            load: Arc::default(),
            metrics: metrics.clone(),
            dialling: Semaphore::new(DIALLING),
            discovery: Discovery::default(),
            revocation: RevocationCheck::default(),
        }
    }

    /// Queues a call. Once this returns, its position in the order is fixed; the future is its outcome. It needs no timer
    /// of its own: the task of the queue ends relays whose deadline has passed.
    pub fn begin(
        &self,
        fed: &Arc<Federation>,
        issuer: &str,
        text: RelayText,
        within: Duration,
    ) -> Result<impl Future<Output = RelayOutcome> + use<>, RpcError> {
        let queue = self.queue(issuer)?;
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
    pub fn send_event(&self, fed: &Arc<Federation>, issuer: &str, relay: &Relay<'_>) -> bool {
        let queued = || {
            let queue = self.queue(issuer).ok()?;
            let relay = PendingRelay::new(&queue.counters, relay.text().ok()?, None, EVENT_TIMEOUT);
            Some(push(fed, &queue, relay))
        };
        queued().unwrap_or(false)
    }

    pub fn list(&self) -> Vec<PeerState> {
        let mut peers: Vec<PeerState> = self.queues.read().values().map(|queue| queue.peer_state()).collect();
        peers.sort_by(|a, b| a.issuer.cmp(&b.issuer));
        peers
    }

    /// A domain is known to be reachable: what failed a moment ago may be tried at once.
    pub fn mark_reachable(&self, issuer: &str) {
        self.discovery.forget_failure(issuer);
        if let Some(queue) = self.queues.read().get(issuer) {
            queue.reset_breaker();
        }
    }

    /// Whether a domain has revoked the certificate of its gateway, as far as it can be asked.
    pub async fn is_revoked(&self, fed: &Federation, issuer: &str, certificate: &Certificate) -> bool {
        let Ok(urls) = self.discovery.find(fed, issuer).await else { return false };
        let Some(url) = urls.first() else { return false };
        self.revocation.is_revoked(fed, issuer, url, certificate).await
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

    fn queue(&self, issuer: &str) -> Result<Arc<PeerQueue>, RpcError> {
        if let Some(queue) = self.queues.read().get(issuer) {
            return Ok(queue.clone());
        }
        let mut queues = self.queues.write();
        if let Some(queue) = queues.get(issuer) {
            return Ok(queue.clone());
        }
        if queues.len() >= self.most_peers {
            // Whoever holds a queue got it under this lock and may be about to push to it, so that one stays.
            queues.retain(|_, queue| Arc::strong_count(queue) > 1 || !queue.is_idle());
        }
        if queues.len() >= self.most_peers {
            let sentence = format!("this gateway has links to {} other domains already", self.most_peers);
            return Err(LinkFailure::new(DialPhase::Connect, "pool_full", sentence).error(issuer, None));
        }
        let queue = Arc::new(PeerQueue::new(issuer, &self.load, &self.metrics));
        queues.insert(issuer.to_owned(), queue.clone());
        Ok(queue)
    }
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
