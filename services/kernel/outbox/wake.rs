//! What has the outbox look before its next tick.

use crate::{Bus, Event};
use parking_lot::Mutex;
use proto_schemas::requests::federation::PeerUp;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::Notify;

const MOST_REACHABLE: usize = 1000;

#[derive(Default)]
pub(super) struct Wake {
    pub notify: Notify,
    /// Destinations that can be reached again.
    reachable: Mutex<HashSet<String>>,
}

impl Wake {
    pub fn listen(self: Arc<Wake>, bus: &Bus) {
        bus.listen(move |event| self.on_event(event));
    }

    /// The gateway publishes that a peer link was proved, whichever side opened it.
    fn on_event(&self, event: &Event) {
        let Some(PeerUp { issuer }) = event.as_signal() else { return };
        let mut reachable = self.reachable.lock();
        if reachable.len() < MOST_REACHABLE {
            reachable.insert(issuer);
            self.notify.notify_one();
        }
    }

    /// Takes those that can be reached again. One that is being sent to right now may be about to fail: it stays, and is tried again
    /// after that.
    pub fn take_reachable(&self, is_busy: impl Fn(&str) -> bool) -> Vec<String> {
        let mut reachable = self.reachable.lock();
        let free: Vec<String> = reachable.iter().filter(|one| !is_busy(one)).cloned().collect();
        free.iter().for_each(|destination| {
            reachable.remove(destination);
        });
        free
    }
}
