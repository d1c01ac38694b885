//! `gateway.peers`: the other domains this gateway knows, for the operator.

use super::Federation;
use super::outbound::peer_state::PeerState;
use kernel::{Caller, RpcError};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Deserialize)]
pub(super) struct PeersParams {}

#[derive(Serialize)]
pub(super) struct KnownPeers {
    peers: Vec<PeerState>,
}

impl Federation {
    pub(super) async fn peers(self: Arc<Self>, _: Caller, _: PeersParams) -> Result<KnownPeers, RpcError> {
        Ok(KnownPeers { peers: merged(self.peers.list(), self.inbound.counts()) })
    }
}

/// Our links to other domains, and theirs to us, one entry per domain.
fn merged(mut peers: Vec<PeerState>, mut inbound: HashMap<String, usize>) -> Vec<PeerState> {
    for peer in &mut peers {
        peer.inbound = inbound.remove(&peer.issuer).unwrap_or(0);
    }
    peers.extend(
        inbound
            .into_iter()
            .map(|(issuer, links)| PeerState { inbound: links, ..PeerState::without_queue(issuer) }),
    );
    peers.sort_by(|a, b| a.issuer.cmp(&b.issuer));
    peers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_with_only_inbound_links_is_listed() {
        let ours = vec![PeerState::without_queue("b.example".to_owned())];
        let inbound = HashMap::from([("a.example".to_owned(), 2), ("b.example".to_owned(), 1)]);
        let known: Vec<_> =
            merged(ours, inbound).into_iter().map(|peer| (peer.issuer, peer.inbound)).collect();
        assert_eq!(known, [("a.example".to_owned(), 2), ("b.example".to_owned(), 1)]);
    }
}
