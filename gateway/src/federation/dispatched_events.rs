//! The events that services dispatched in the last ten minutes: one that is dispatched again, because its answer did not
//! arrive, is delivered once.

use parking_lot::Mutex;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

const REMEMBERED_MS: i64 = 600_000;
const MAX_BYTES: usize = 16 << 20;
/// What is counted for each beside its id.
const ENTRY_BYTES: usize = 128;

/// By service and id. When too many are remembered, the oldest are forgotten first.
#[derive(Default)]
pub struct DispatchedEvents(Mutex<DispatchMemory>);

#[derive(Default)]
struct DispatchMemory {
    known: HashSet<Arc<str>>,
    /// Those that were written, with the time until which they are remembered.
    order: VecDeque<(i64, Arc<str>)>,
    bytes: usize,
}

impl DispatchedEvents {
    /// The right to dispatch an event, unless it was dispatched before or is being dispatched.
    pub fn claim(self: &Arc<Self>, service: &str, event_id: &str, now: i64) -> Option<DispatchClaim> {
        let key: Arc<str> = format!("{service} {event_id}").into();
        let mut memory = self.0.lock();
        memory.make_space(now);
        memory.known.insert(key.clone()).then(|| DispatchClaim { events: self.clone(), key, written: false })
    }
}

impl DispatchMemory {
    fn make_space(&mut self, now: i64) {
        while let Some((until, _)) = self.order.front() {
            if *until > now && self.bytes < MAX_BYTES {
                return;
            }
            let Some((_, key)) = self.order.pop_front() else { return };
            self.bytes -= key.len() + ENTRY_BYTES;
            self.known.remove(&key);
        }
    }
}

/// Dropped before the event was written to anybody, it counts as never dispatched, and may be dispatched again.
pub struct DispatchClaim {
    events: Arc<DispatchedEvents>,
    key: Arc<str>,
    written: bool,
}

impl DispatchClaim {
    /// The event was written to a connection, or to the queue of a peer: it is not dispatched again.
    pub fn written(mut self, now: i64) {
        self.written = true;
        let mut memory = self.events.0.lock();
        memory.bytes += self.key.len() + ENTRY_BYTES;
        memory.order.push_back((now + REMEMBERED_MS, self.key.clone()));
    }
}

impl Drop for DispatchClaim {
    fn drop(&mut self) {
        if !self.written {
            self.events.0.lock().known.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_was_written_is_dispatched_once_until_it_is_forgotten() {
        let events = Arc::new(DispatchedEvents::default());
        events.claim("message", "e-1", 0).unwrap().written(0);
        assert!(events.claim("message", "e-1", REMEMBERED_MS - 1).is_none());
        assert!(events.claim("task", "e-1", 1).is_some(), "another service has ids of its own");
        assert!(events.claim("message", "e-1", REMEMBERED_MS).is_some());
        assert_eq!(events.0.lock().bytes, 0);
    }

    #[test]
    fn an_event_that_was_written_to_nobody_may_be_dispatched_again() {
        let events = Arc::new(DispatchedEvents::default());
        let claim = events.claim("message", "e-1", 0).unwrap();
        assert!(events.claim("message", "e-1", 0).is_none(), "it is being dispatched");
        drop(claim);
        assert!(events.claim("message", "e-1", 0).is_some());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let events = Arc::new(DispatchedEvents::default());
        let id = |n: usize| format!("{n:0256}");
        let fit = MAX_BYTES / (ENTRY_BYTES + 256);
        for n in 0..fit + 1000 {
            events.claim("message", &id(n), 0).unwrap().written(0);
        }
        assert!(events.0.lock().bytes < MAX_BYTES + 1000);
        assert!(events.claim("message", &id(0), 0).is_some(), "the oldest is forgotten");
        assert!(events.claim("message", &id(fit + 999), 0).is_none());
    }
}
