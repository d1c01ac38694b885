//! Our links that are up, for whoever asks again whether the certificates of their gateways are revoked.

use crate::federation::trust::PeerGateway;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// One link, for as long as it lasts.
pub struct OpenLink {
    pub peer: PeerGateway,
    revoked: AtomicBool,
}

/// All of them, by domain: there is one link to each. Those that have ended are forgotten when the next one is added.
#[derive(Default)]
pub struct OpenLinks(Mutex<HashMap<String, Weak<OpenLink>>>);

impl OpenLink {
    pub fn new(peer: &PeerGateway) -> OpenLink {
        OpenLink { peer: peer.clone(), revoked: AtomicBool::new(false) }
    }

    /// The certificate of its gateway is revoked: the link ends when it next looks at its clock.
    pub fn revoke(&self) {
        self.revoked.store(true, Ordering::Relaxed);
    }

    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }
}

impl OpenLinks {
    pub fn add(&self, link: &Arc<OpenLink>) {
        let mut links = self.0.lock();
        links.retain(|_, link| link.strong_count() > 0);
        links.insert(link.peer.issuer.clone(), Arc::downgrade(link));
    }

    pub fn all(&self) -> Vec<Arc<OpenLink>> {
        self.0.lock().values().filter_map(Weak::upgrade).collect()
    }
}
