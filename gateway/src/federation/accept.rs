//! The answering side: gateways of other domains that came to us, from their hello to their end.

use super::card::{self, Peer};
use super::hello::{HelloParams, Limits, Welcome, bad_nonce};
use super::{Federation, refused};
use crate::connection::{CloseReason, Connection};
use parking_lot::Mutex;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use services::kernel::{Audience, Event, RpcError, codes};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The challenge of a socket is good for so long.
const NONCE_MS: i64 = 60_000;
/// How long the other domain may take to say whether its gateway's certificate is revoked.
const ASK_PATIENCE: Duration = Duration::from_secs(3);
/// A link that lasts longer proves itself anew.
const LONGEST_MS: i64 = 24 * 3_600_000;
/// Relays of one link that may be under way; past that it is not read.
pub const IN_FLIGHT: u32 = 512;
pub const BATCH_ITEMS: usize = 200;

/// A gateway of another domain, on a socket of ours.
pub struct Guest {
    pub peer: Peer,
    pub issuer: Arc<str>,
    pub session_id: String,
    chain: Vec<String>,
    until_ms: i64,
    link: Arc<Connection>,
}

/// Those who are here.
#[derive(Default)]
pub struct Guests(Mutex<HashMap<u64, Arc<Guest>>>);

impl Guests {
    pub fn of(&self, issuer: &str) -> usize {
        self.0.lock().values().filter(|guest| &*guest.issuer == issuer).count()
    }

    /// How many links each domain has to us.
    pub fn counts(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for guest in self.0.lock().values() {
            *counts.entry(guest.issuer.to_string()).or_default() += 1;
        }
        counts
    }

    fn all(&self) -> Vec<Arc<Guest>> {
        self.0.lock().values().cloned().collect()
    }

    pub fn leave(&self, guest: &Guest) {
        self.0.lock().remove(&guest.link.id);
    }
}

impl Guest {
    /// When the link has to prove itself anew.
    pub fn is_over(&self, now_ms: i64) -> bool {
        now_ms >= self.until_ms
    }
}

impl Federation {
    /// Answers `federation.hello` on a socket whose challenge had this nonce, `age_ms` ago.
    pub async fn greet(
        &self,
        link: &Arc<Connection>,
        nonce: &str,
        age_ms: i64,
        params: Option<&RawValue>,
    ) -> Result<(Arc<Guest>, Box<RawValue>), RpcError> {
        let hello: HelloParams = serde_json::from_str(params.map_or("{}", RawValue::get))
            .map_err(|error| RpcError::new(codes::INVALID_PARAMS, format!("params: {error}")))?;
        if age_ms > NONCE_MS {
            return Err(bad_nonce("server_nonce is older than a minute"));
        }
        let now = self.clock.now_ms();
        let peer = self.recognise(&hello, nonce, now).await?;
        if !self.nonces.take(&peer.issuer, &hello.client_nonce, now) {
            return Err(bad_nonce("client_nonce was used before"));
        }
        if self.guests.of(&peer.issuer) >= self.config.federation.links_per_peer {
            let sentence = format!("{} has all the links it may have", peer.issuer);
            return Err(refused("links", sentence));
        }
        let limits = Limits {
            max_frame_bytes: self.config.limits.frame_bytes,
            max_batch_items: BATCH_ITEMS,
            max_inflight: IN_FLIGHT as usize,
            relay_timeout_ms: u64::try_from(super::relay::LONGEST.as_millis()).unwrap_or(u64::MAX),
        };
        let session_id = format!("fed_{}", self.ids.time_ordered(now));
        let namespaces = &self.config.federation.namespaces;
        let welcome = Welcome::new(&self.card, &hello, &peer, session_id.clone(), namespaces, limits, now);
        let guest = Arc::new(Guest {
            issuer: Arc::from(peer.issuer.as_str()),
            until_ms: (now + LONGEST_MS).min(peer.certificate.not_after() * 1000),
            session_id,
            chain: hello.chain,
            link: link.clone(),
            peer,
        });
        self.guests.0.lock().insert(link.id, guest.clone());
        tracing::info!(peer.issuer = %guest.issuer, "the gateway of {} is here", guest.issuer);
        self.came_back(&guest.issuer);
        Ok((guest, to_raw_value(&welcome).map_err(RpcError::internal)?))
    }

    async fn recognise(&self, hello: &HelloParams, nonce: &str, now: i64) -> Result<Peer, RpcError> {
        let first = hello.check(&self.trust, self.issuer(), nonce, now);
        let peer = match first {
            // The operator may have added its root a moment ago, through another process.
            Err(error) if error.code() == codes::CERT_OR_NONCE_INVALID.code => {
                self.trust.refresh().await?;
                hello.check(&self.trust, self.issuer(), nonce, now)?
            }
            checked => checked?,
        };
        // Its own domain knows; one that cannot be asked in time is believed.
        let asked = self.peers.is_revoked(self, &peer.issuer, &peer.certificate);
        if timeout(ASK_PATIENCE, asked).await.unwrap_or(false) {
            let sentence = format!("the certificate of {} is revoked", peer.gateway_aid);
            return Err(RpcError::new(codes::CERT_OR_NONCE_INVALID, sentence).with("reason", "revoked"));
        }
        Ok(peer)
    }

    /// Whoever has something for a domain that could not be reached may try again.
    pub fn came_back(&self, issuer: &str) {
        self.peers.is_there(issuer);
        self.bus.publish(&Event::new(Audience::Gateways, "federation.peer_up", &json!({ "issuer": issuer })));
    }

    /// The list of roots has changed: those who are here because of one that is gone have to go.
    pub async fn trust_changed(&self) {
        if let Err(error) = self.trust.refresh().await {
            tracing::warn!("the list of trusted roots could not be read: {error}");
            return;
        }
        let now = self.clock.now_seconds();
        for guest in self.guests.all() {
            let Peer { issuer, gateway_aid, certificate } = &guest.peer;
            let checked = card::check(&self.trust, issuer, gateway_aid, certificate.pem(), &guest.chain, now);
            if let Err(error) = checked {
                guest.link.outbox.close(CloseReason::plain(4001, error.to_string()));
            }
        }
    }
}
