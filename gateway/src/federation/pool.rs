//! The lines to all other domains: made on demand, bounded in number and in what waits on them.

use super::Federation;
use super::discover::Discovery;
use super::job::{Job, Load, Outcome};
use super::line::Line;
use super::peer_state::PeerState;
use super::revocation::Revocation;
use super::trouble::{Failure, Phase};
use super::wire::{Relay, Text};
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
/// How long an event is worth sending.
const EVENT_PATIENCE: Duration = Duration::from_secs(15);

pub struct Peers {
    lines: RwLock<HashMap<String, Arc<Line>>>,
    most: usize,
    load: Arc<Load>,
    metrics: Arc<Metrics>,
    pub(super) dialling: Semaphore,
    pub(super) discovery: Discovery,
    pub(super) revocation: Revocation,
}

impl Peers {
    pub fn new(most: usize, metrics: &Arc<Metrics>) -> Peers {
        Peers {
            lines: RwLock::default(),
            most,
            load: Arc::default(),
            metrics: metrics.clone(),
            dialling: Semaphore::new(DIALLING),
            discovery: Discovery::default(),
            revocation: Revocation::default(),
        }
    }

    /// Once this returns, the call has its place in the order; the rest is to wait for how it ends. The line keeps the
    /// time: it tells whoever waited too long.
    pub fn begin(
        &self,
        fed: &Arc<Federation>,
        issuer: &str,
        text: Text,
        within: Duration,
    ) -> Result<impl Future<Output = Outcome> + use<>, RpcError> {
        let line = self.line(issuer)?;
        let (answer, receiver) = oneshot::channel();
        let job = Job::new(&line, text, Some(answer), within);
        line.put(fed, job);
        Ok(async move {
            // A job says something to whoever waits for it before it goes, whatever happens to it.
            receiver.await.unwrap_or_else(|gone| Err(RpcError::internal(gone)))
        })
    }

    /// Queues something nobody waits for. False if there is no space for it, or the domain was just found away.
    pub fn post(&self, fed: &Arc<Federation>, issuer: &str, relay: &Relay<'_>) -> bool {
        let put = || {
            let line = self.line(issuer).ok()?;
            let job = Job::new(&line, relay.text().ok()?, None, EVENT_PATIENCE);
            Some(line.put(fed, job))
        };
        put().unwrap_or(false)
    }

    pub fn list(&self) -> Vec<PeerState> {
        let mut peers: Vec<PeerState> = self.lines.read().values().map(|line| line.shown()).collect();
        peers.sort_by(|a, b| a.issuer.cmp(&b.issuer));
        peers
    }

    /// A domain is known to be there: what failed a moment ago may be tried at once.
    pub fn is_there(&self, issuer: &str) {
        self.discovery.forgive(issuer);
        if let Some(line) = self.lines.read().get(issuer) {
            line.forgive();
        }
    }

    /// Whether a domain has revoked the certificate of its gateway, as far as it can be asked.
    pub async fn is_revoked(&self, fed: &Federation, issuer: &str, certificate: &Certificate) -> bool {
        let Ok(places) = self.discovery.find(fed, issuer).await else { return false };
        let Some(place) = places.first() else { return false };
        self.revocation.is_revoked(fed, issuer, place, certificate).await
    }

    /// How long the oldest of all calls has waited; taken over by the metrics when somebody asks.
    pub fn measure(&self) {
        let lines = self.lines.read();
        let oldest = lines.values().map(|line| line.oldest_ms.load(Ordering::Relaxed)).max();
        self.metrics.federation_oldest_seconds.set(oldest.unwrap_or(0) as f64 / 1000.0);
    }

    /// Whether something was sent there before, so that it is known to be a domain.
    pub fn has_line(&self, issuer: &str) -> bool {
        self.lines.read().contains_key(issuer)
    }

    fn line(&self, issuer: &str) -> Result<Arc<Line>, RpcError> {
        if let Some(line) = self.lines.read().get(issuer) {
            return Ok(line.clone());
        }
        let mut lines = self.lines.write();
        if let Some(line) = lines.get(issuer) {
            return Ok(line.clone());
        }
        if lines.len() >= self.most {
            // Whoever has one of them in hand took it under this lock and may be about to use it.
            lines.retain(|_, line| Arc::strong_count(line) > 1 || !line.is_over());
        }
        if lines.len() >= self.most {
            let sentence = "there are links to too many other domains";
            return Err(Failure::new(Phase::Connect, "pool_full", sentence).told(issuer, None));
        }
        let line = Arc::new(Line::new(issuer, &self.load, &self.metrics));
        lines.insert(issuer.to_owned(), line.clone());
        Ok(line)
    }
}
