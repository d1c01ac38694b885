//! The inbound links: gateways of other domains that said hello on a socket of ours.

use super::limits::{BATCH_ITEMS, IN_FLIGHT, RELAY_TIMEOUT};
use crate::connection::{CloseReason, Connection};
use crate::federation::Federation;
use crate::federation::errors::refused;
use crate::federation::trust::{PeerGateway, check_gateway};
use crate::federation::wire::hello::{HelloParams, LinkLimits, Welcome, bad_nonce};
use kernel::{CpuOwner, RpcError, codes, read_params};
use parking_lot::Mutex;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// For how long the challenge of a socket may be answered.
const NONCE_MS: i64 = 60_000;
/// How long the other domain may take to say whether its gateway's certificate is revoked.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(3);
/// A link that has lasted this long is closed: the other gateway has to say hello again.
const LINK_LIFETIME_MS: i64 = 24 * 3_600_000;

/// A gateway of another domain that is connected to us.
pub struct InboundPeer {
    pub peer: PeerGateway,
    pub issuer: Arc<str>,
    chain: Vec<String>,
    /// When the other gateway has to say hello again.
    until_ms: i64,
    link: Arc<Connection>,
}

/// All of them, by the id of their connection.
#[derive(Default)]
pub struct InboundPeers(Mutex<HashMap<u64, Arc<InboundPeer>>>);

impl InboundPeers {
    /// How many links this domain has to us.
    pub fn count(&self, issuer: &str) -> usize {
        self.0.lock().values().filter(|inbound| &*inbound.issuer == issuer).count()
    }

    /// How many links each domain has to us.
    pub fn counts(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for inbound in self.0.lock().values() {
            *counts.entry(inbound.issuer.to_string()).or_default() += 1;
        }
        counts
    }

    pub fn all(&self) -> Vec<Arc<InboundPeer>> {
        self.0.lock().values().cloned().collect()
    }

    pub fn remove(&self, inbound: &InboundPeer) {
        self.0.lock().remove(&inbound.link.id);
    }
}

impl InboundPeer {
    /// Whether the link has lasted as long as it may, or the certificate of the other gateway has expired.
    pub fn is_expired(&self, now_ms: i64) -> bool {
        now_ms >= self.until_ms
    }

    /// Closes the link: the other gateway is not trusted any more.
    pub fn close(&self, reason: &str) {
        self.link.outbox.close(CloseReason::plain(4001, reason));
    }
}

impl Federation {
    /// Answers `federation.hello` on a socket whose challenge had this nonce, `age_ms` ago.
    pub async fn accept_hello(
        self: &Arc<Self>,
        link: &Arc<Connection>,
        nonce: &str,
        age_ms: i64,
        params: Option<&RawValue>,
    ) -> Result<(Arc<InboundPeer>, Box<RawValue>), RpcError> {
        let hello: HelloParams = read_params("federation.hello", params)?;
        if age_ms > NONCE_MS {
            return Err(bad_nonce("server_nonce is older than 60 seconds"));
        }
        let (hello, now) = (Arc::new(hello), self.clock.now_ms());
        hello.check_claims(self.issuer(), nonce, now)?;
        let peer = self.check_hello(link.address, &hello, now).await?;
        if !self.nonces.take(&peer.issuer, &hello.client_nonce, now) {
            return Err(bad_nonce("client_nonce was used before"));
        }
        if self.inbound.count(&peer.issuer) >= self.config.federation.links_per_peer {
            let sentence = format!(
                "{} has {} links already, the most it may have",
                peer.issuer, self.config.federation.links_per_peer
            );
            // One of them ends, sooner or later.
            return Err(refused("links", sentence).with("retryable", true));
        }
        let limits = LinkLimits {
            max_frame_bytes: self.config.limits.frame_bytes,
            max_batch_items: BATCH_ITEMS,
            max_inflight: IN_FLIGHT as usize,
            relay_timeout_ms: u64::try_from(RELAY_TIMEOUT.as_millis()).unwrap_or(u64::MAX),
        };
        let session_id = format!("fed_{}", self.ids.time_ordered(now));
        let namespaces = &self.config.federation.namespaces;
        let welcome = Welcome::new(&self.identity, &hello, &peer, session_id, namespaces, limits, now);
        let inbound = Arc::new(InboundPeer {
            issuer: Arc::from(peer.issuer.as_str()),
            until_ms: (now + LINK_LIFETIME_MS).min(peer.certificate.not_after() * 1000),
            chain: hello.chain.clone(),
            link: link.clone(),
            peer,
        });
        self.inbound.0.lock().insert(link.id, inbound.clone());
        tracing::info!(peer.issuer = %inbound.issuer, "the gateway of {} has connected", inbound.issuer);
        self.peer_is_reachable(&inbound.issuer);
        Ok((inbound, to_raw_value(&welcome).map_err(RpcError::internal)?))
    }

    async fn check_hello(
        self: &Arc<Self>,
        address: IpAddr,
        hello: &Arc<HelloParams>,
        now: i64,
    ) -> Result<PeerGateway, RpcError> {
        let peer = match self.check_proof(address, hello, now).await {
            // The operator may have added its root a moment ago, through another process. Not for every hello: whoever sends
            // what nobody signed would have each of them checked twice.
            Err(error)
                if error.code() == codes::CERT_OR_NONCE_INVALID.code
                    && self.trust_refreshes.check().is_ok() =>
            {
                self.trust.refresh().await?;
                self.check_proof(address, hello, now).await?
            }
            checked => checked?,
        };
        // Its own domain is asked. Without an answer in time the certificate counts as good.
        let checked = self.peers.check_revocation(self, &peer);
        if let Err(refusal) = timeout(REVOCATION_TIMEOUT, checked).await.unwrap_or(Ok(())) {
            let sentence = format!("the certificate of {} {refusal}", peer.gateway_aid);
            return Err(
                RpcError::new(codes::CERT_OR_NONCE_INVALID, sentence).with("reason", refusal.reason())
            );
        }
        self.trust.pin(&peer).await?;
        Ok(peer)
    }

    /// Certificates and signatures, beside the threads of the runtime: whoever sends them is not known yet.
    async fn check_proof(
        self: &Arc<Self>,
        address: IpAddr,
        hello: &Arc<HelloParams>,
        now: i64,
    ) -> Result<PeerGateway, RpcError> {
        let (federation, hello) = (self.clone(), hello.clone());
        let checked =
            self.cpu.run(CpuOwner::of_address(address), move || hello.check_proof(&federation.trust, now));
        checked.await?
    }

    /// The list of trusted roots has changed: links that are not trusted any more are closed.
    pub async fn trust_changed(&self) {
        if let Err(error) = self.trust.refresh().await {
            tracing::warn!("the list of trusted roots could not be read: {error}");
            return;
        }
        let now = self.clock.now_seconds();
        for inbound in self.inbound.all() {
            let PeerGateway { issuer, gateway_aid, certificate, .. } = &inbound.peer;
            let checked =
                check_gateway(&self.trust, issuer, gateway_aid, certificate.pem(), &inbound.chain, now);
            if let Err(error) = checked {
                inbound.link.outbox.close(CloseReason::plain(4001, error.to_string()));
            }
        }
    }
}
