//! `gateway.peers`: the other domains this gateway knows, for the operator.

use super::Federation;
use kernel::{Caller, RpcError};
use proto_schemas::requests::gateway::{ListedPeer, PeerList, Peers};
use std::collections::HashMap;
use std::sync::Arc;

impl Federation {
    pub(super) async fn peers(self: Arc<Self>, _: Caller, _: Peers) -> Result<PeerList, RpcError> {
        Ok(PeerList { peers: merged(self.peers.list(), self.inbound.counts()) })
    }
}

/// Our links to other domains, and theirs to us, one entry per domain.
fn merged(mut peers: Vec<ListedPeer>, mut inbound: HashMap<String, usize>) -> Vec<ListedPeer> {
    for peer in &mut peers {
        peer.inbound = inbound.remove(&peer.issuer).unwrap_or(0);
    }
    peers.extend(inbound.into_iter().map(|(issuer, links)| ListedPeer {
        issuer,
        inbound: links,
        ..ListedPeer::default()
    }));
    peers.sort_by(|a, b| a.issuer.cmp(&b.issuer));
    peers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_with_only_inbound_links_is_listed() {
        let ours = vec![ListedPeer { issuer: "b.example".to_owned(), ..ListedPeer::default() }];
        let inbound = HashMap::from([("a.example".to_owned(), 2), ("b.example".to_owned(), 1)]);
        let known: Vec<_> =
            merged(ours, inbound).into_iter().map(|peer| (peer.issuer, peer.inbound)).collect();
        assert_eq!(known, [("a.example".to_owned(), 2), ("b.example".to_owned(), 1)]);
    }
}
