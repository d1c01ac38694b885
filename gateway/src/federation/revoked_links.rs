//! Links that last, with gateways whose certificates may be revoked meanwhile: their domains are asked again and again, and a link whose
//! gateway is revoked is closed. Without an answer it stays, as without an answer a hello is accepted.

use super::Federation;
use super::inbound::InboundPeer;
use super::outbound::OpenLink;
use super::trust::PeerGateway;
use futures_util::{StreamExt as _, stream};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// How long one domain may take to answer, and how many are asked at the same time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const AT_ONCE: usize = 16;

/// A certificate, and the links of the gateway that has it.
struct LinkedCertificate {
    peer: PeerGateway,
    inbound: Vec<Arc<InboundPeer>>,
    outbound: Vec<Arc<OpenLink>>,
}

impl Federation {
    /// Asks about all links every `federation.revocation_check_seconds`, until the gateway stops.
    pub async fn watch_revocations(self: Arc<Self>, stop: CancellationToken) {
        let every = Duration::from_secs(self.config.federation.revocation_check_seconds.max(1));
        while stop.run_until_cancelled(sleep(every)).await.is_some() {
            stop.run_until_cancelled(self.close_revoked_links()).await;
        }
    }

    /// Asks once for each certificate, however many links there are.
    pub(super) async fn close_revoked_links(&self) {
        let certificates = stream::iter(self.linked_certificates());
        certificates.for_each_concurrent(AT_ONCE, |linked| self.close_if_revoked(linked)).await;
    }

    async fn close_if_revoked(&self, linked: LinkedCertificate) {
        let LinkedCertificate { peer, inbound, outbound } = linked;
        self.peers.revocation.forget(&peer.certificate);
        let checked = timeout(ANSWER_TIMEOUT, self.peers.check_revocation(self, &peer)).await;
        let Ok(Err(refusal)) = checked else { return };
        let issuer = &peer.issuer;
        tracing::warn!(peer.issuer = %issuer, "{issuer} does not confirm the certificate of its gateway: {}", refusal.reason());
        inbound.iter().for_each(|inbound| inbound.close("the certificate of the gateway is revoked"));
        outbound.iter().for_each(|link| link.revoke());
    }

    fn linked_certificates(&self) -> Vec<LinkedCertificate> {
        let mut found: HashMap<String, LinkedCertificate> = HashMap::new();
        for inbound in self.inbound.all() {
            linked(&mut found, &inbound.peer).inbound.push(inbound.clone());
        }
        for link in self.peers.open_links.all() {
            linked(&mut found, &link.peer).outbound.push(link.clone());
        }
        found.into_values().collect()
    }
}

/// The entry of a certificate, by its fingerprint.
fn linked<'a>(
    found: &'a mut HashMap<String, LinkedCertificate>,
    peer: &PeerGateway,
) -> &'a mut LinkedCertificate {
    found.entry(peer.certificate.fingerprint().to_owned()).or_insert_with(|| LinkedCertificate {
        peer: peer.clone(),
        inbound: Vec::new(),
        outbound: Vec::new(),
    })
}
