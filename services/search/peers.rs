//! `search.peers`: how far the directories of other domains are copied, for the operator.

use super::store::PeerStep;
use super::sync::HIDDEN_AFTER_MS;
use super::{Error, SearchService, ap_id};
use kernel::{Caller, iso};
use proto_schemas::requests::search::{Peers, SearchPeer, SearchPeers};
use std::collections::HashMap;
use std::sync::Arc;

impl SearchService {
    pub(super) async fn peers(self: Arc<Self>, _: Caller, _: Peers) -> Result<SearchPeers, Error> {
        let now = self.clock.now_ms();
        let copied: HashMap<String, i64> = self.store.copied().await?.into_iter().collect();
        let rows = self.store.peers().await?;
        let peers = rows.into_iter().map(|row| {
            let state = match (row.step(), row.last_error.is_some()) {
                (_, true) => "failed",
                (PeerStep::Changes, _) if row.level_at.is_some() => "waiting",
                (PeerStep::Changes, _) => "changes",
                (PeerStep::Snapshot | PeerStep::Sweep, _) => "snapshot",
            };
            SearchPeer {
                agents: u64::try_from(copied.get(&ap_id(&row.issuer)).copied().unwrap_or(0))
                    .unwrap_or_default(),
                state: state.to_owned(),
                cursor: row.cursor,
                last_ok_at: Some(iso(row.last_ok_at)),
                lag_ms: row.level_at.map(|at| u64::try_from(now - at).unwrap_or_default()),
                last_error: row.last_error,
                hidden: now - row.last_ok_at > HIDDEN_AFTER_MS,
                issuer: row.issuer,
            }
        });
        Ok(SearchPeers { peers: peers.collect() })
    }
}
