//! Directories of other domains: they are copied here as far as the operator wants, and those that copy ours are told of changes.

mod accept;
pub(super) mod copy;
mod followers;

use super::{Error, SearchService, ap_id};
pub(super) use followers::Followers;
use futures_util::future::{join, join_all};
use parking_lot::{Mutex, RwLock};
use proto_schemas::requests::search::PeerChanged;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::Notify;

const DAY_MS: i64 = 86_400_000;
/// When results from a peer that does not answer are marked, hidden, and removed.
const STALE_AFTER_MS: i64 = DAY_MS;
pub(super) const HIDDEN_AFTER_MS: i64 = 7 * DAY_MS;
pub(super) const DROPPED_AFTER_MS: i64 = 30 * DAY_MS;

/// What is known of the peers without a query, by the names of their directories.
#[derive(Default)]
pub(super) struct PeerStates(RwLock<Arc<SilentPeers>>);

/// The directories that have not answered for some time.
#[derive(Default)]
pub(super) struct SilentPeers {
    /// For so long that their agents are not shown.
    pub hidden: HashSet<String>,
    /// For so long that what is shown of them may be out of date.
    pub stale: HashSet<String>,
}

impl PeerStates {
    pub fn get(&self) -> Arc<SilentPeers> {
        self.0.read().clone()
    }
}

/// The peers that have something new, each with what waits for that.
#[derive(Default)]
pub(super) struct WakePeers(Mutex<HashMap<String, Arc<Notify>>>);

impl WakePeers {
    pub fn of(&self, issuer: &str) -> Arc<Notify> {
        self.0.lock().entry(issuer.to_owned()).or_default().clone()
    }

    /// Nothing happens for a domain that is not copied.
    pub fn wake(&self, changed: &PeerChanged) {
        if let Some(waiting) = self.0.lock().get(&changed.issuer) {
            waiting.notify_one();
        }
    }
}

impl SearchService {
    /// Runs until the server stops.
    pub(super) async fn sync(&self) {
        let peers = self.settings.peers.iter().filter(|issuer| **issuer != self.issuer);
        join(join_all(peers.map(|issuer| self.copy_peer(issuer))), self.tell_followers()).await;
    }

    /// Learns which peers are silent.
    pub(super) async fn refresh_peer_states(&self) -> Result<(), Error> {
        let now = self.clock.now_ms();
        let mut silent = SilentPeers::default();
        for peer in self.store.peers().await? {
            if now - peer.last_ok_at > STALE_AFTER_MS {
                silent.stale.insert(ap_id(&peer.issuer));
            }
            if now - peer.last_ok_at > HIDDEN_AFTER_MS {
                silent.hidden.insert(ap_id(&peer.issuer));
            }
        }
        *self.peer_states.0.write() = Arc::new(silent);
        Ok(())
    }
}
