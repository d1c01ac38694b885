//! What is to be told to other domains at once, and which of them cannot be reached right now.
//!
//! A queue is short and in memory only. What does not fit, or comes while its domain is away, is dropped: the row in the store stays,
//! and the domain is told of it later.

use super::draft::TaskRelay;
use kernel::{BackoffSchedule, Event, Ids};
use parking_lot::Mutex;
use proto_schemas::requests::federation::PeerUp;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::sync::Notify;

/// What may wait for one domain, and for all of them.
const DOMAIN_BYTES: usize = 4 << 20;
const ALL_BYTES: usize = 32 << 20;
/// What one call tells.
pub(super) const MOST_ITEMS: usize = 64;
const CALL_BYTES: usize = 512 << 10;
/// What an item weighs beside its text.
const ITEM_WEIGHT: usize = 256;
/// Before a domain that could not be reached is tried again.
const WAITS: BackoffSchedule = BackoffSchedule::new(Duration::from_secs(1), Duration::from_secs(300));
/// After which a domain that nothing is told to is forgotten.
const FORGOTTEN_MS: i64 = 3_600_000;

#[derive(Default)]
pub(crate) struct RelayQueues {
    domains: Mutex<QueuedDomains>,
    pub wake: Notify,
}

#[derive(Default)]
struct QueuedDomains {
    /// In the order of their names; a domain is here while something waits for it, or while it is away.
    by_issuer: BTreeMap<String, QueuedDomain>,
    bytes: usize,
}

#[derive(Default)]
struct QueuedDomain {
    waiting: VecDeque<TaskRelay>,
    bytes: usize,
    /// How often in a row it could not be told.
    failures: u32,
    next_try: i64,
    /// A peer link to it was proved since it was tried.
    reachable: bool,
}

impl RelayQueues {
    pub fn push(&self, issuer: String, relay: TaskRelay) {
        let mut domains = self.domains.lock();
        let (weight, all) = (relay.weight(), domains.bytes);
        let domain = domains.by_issuer.entry(issuer).or_default();
        let is_full = domain.bytes + weight > DOMAIN_BYTES || all + weight > ALL_BYTES;
        if is_full || domain.failures > 0 {
            return;
        }
        domain.waiting.push_back(relay);
        domain.bytes += weight;
        domains.bytes += weight;
        drop(domains);
        self.wake.notify_one();
    }

    /// What the next call tells, in order.
    pub fn take(&self, issuer: &str) -> Vec<TaskRelay> {
        let mut domains = self.domains.lock();
        let Some(domain) = domains.by_issuer.get_mut(issuer) else { return Vec::new() };
        let count = fitting(domain.waiting.iter());
        let taken: Vec<TaskRelay> = domain.waiting.drain(..count).collect();
        let weight: usize = taken.iter().map(TaskRelay::weight).sum();
        domain.bytes -= weight;
        domains.bytes -= weight;
        taken
    }

    /// The domains for which something waits in memory.
    pub fn waiting(&self) -> Vec<String> {
        let domains = self.domains.lock();
        let waiting = domains.by_issuer.iter().filter(|(_, domain)| !domain.waiting.is_empty());
        waiting.map(|(issuer, _)| issuer.clone()).collect()
    }

    /// Whether a domain is to be tried now.
    pub fn may_try(&self, issuer: &str, now: i64) -> bool {
        let domains = self.domains.lock();
        domains.by_issuer.get(issuer).is_none_or(|domain| domain.reachable || domain.next_try <= now)
    }

    /// From now on a link that is proved has the domain tried again, also where this try fails.
    pub fn begin(&self, issuer: &str) {
        if let Some(domain) = self.domains.lock().by_issuer.get_mut(issuer) {
            domain.reachable = false;
        }
    }

    /// The domain has answered all that there was.
    pub fn succeeded(&self, issuer: &str) {
        let mut domains = self.domains.lock();
        let Some(domain) = domains.by_issuer.get_mut(issuer) else { return };
        (domain.failures, domain.next_try) = (0, 0);
        if domain.waiting.is_empty() {
            domains.by_issuer.remove(issuer);
        }
    }

    /// The domain is tried again later. Events that wait for it are dropped.
    pub fn failed(&self, issuer: &str, now: i64, ids: &Ids) {
        let mut domains = self.domains.lock();
        let domain = domains.by_issuer.entry(issuer.to_owned()).or_default();
        domain.failures += 1;
        let wait = ids.jitter(WAITS.after(domain.failures.into()));
        domain.next_try = now + i64::try_from(wait.as_millis()).unwrap_or(i64::MAX / 2);
        domain.waiting.clear();
        let weight = std::mem::take(&mut domain.bytes);
        domains.bytes -= weight;
    }

    /// Nothing was to be told to them for a long time.
    pub fn forget(&self, now: i64) {
        self.domains
            .lock()
            .by_issuer
            .retain(|_, domain| !domain.waiting.is_empty() || domain.next_try + FORGOTTEN_MS > now);
    }

    /// The gateway publishes that a peer link was proved, whichever side opened it.
    pub fn on_event(&self, event: &Event) {
        let Some(PeerUp { issuer }) = event.as_signal() else { return };
        if let Some(domain) = self.domains.lock().by_issuer.get_mut(&issuer) {
            domain.reachable = true;
            self.wake.notify_one();
        }
    }
}

impl TaskRelay {
    fn weight(&self) -> usize {
        self.text.get().len() + ITEM_WEIGHT
    }
}

/// How many of them fit into one call; one always does.
pub(super) fn fitting<'a>(relays: impl Iterator<Item = &'a TaskRelay>) -> usize {
    let (mut count, mut bytes) = (0, 0);
    for relay in relays.take(MOST_ITEMS) {
        bytes += relay.weight();
        if count > 0 && bytes > CALL_BYTES {
            break;
        }
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::task::TaskId;
    use serde_json::value::to_raw_value;

    fn relay(number: i64, bytes: usize) -> TaskRelay {
        TaskRelay {
            task_id: TaskId::try_from(format!("task_{number}")).unwrap(),
            version: number,
            waits_for: None,
            text: to_raw_value(&"x".repeat(bytes)).unwrap(),
        }
    }

    fn versions(queues: &RelayQueues) -> Vec<i64> {
        queues.take("b.example").iter().map(|relay| relay.version).collect()
    }

    #[test]
    fn a_call_takes_what_fits_in_order_and_a_full_queue_takes_no_more() {
        let queues = RelayQueues::default();
        for number in 0..100 {
            queues.push("b.example".to_owned(), relay(number, 10));
        }
        assert_eq!(versions(&queues), (0..64).collect::<Vec<_>>());
        assert_eq!(versions(&queues), (64..100).collect::<Vec<_>>());
        for number in 0..3 {
            queues.push("b.example".to_owned(), relay(number, 300 << 10));
        }
        assert_eq!([versions(&queues), versions(&queues), versions(&queues)], [[0], [1], [2]]);
        for number in 0..20 {
            queues.push("b.example".to_owned(), relay(number, 384 << 10));
        }
        let mut taken = 0;
        while !versions(&queues).is_empty() {
            taken += 1;
        }
        assert_eq!((taken, queues.domains.lock().bytes), (10, 0));
    }

    #[test]
    fn a_domain_that_is_away_is_tried_later_or_when_a_link_to_it_was_proved() {
        let (queues, ids) = (RelayQueues::default(), Ids::default());
        queues.push("b.example".to_owned(), relay(1, 10));
        queues.push("c.example".to_owned(), relay(1, 10));
        queues.begin("b.example");
        queues.failed("b.example", 0, &ids);
        queues.push("b.example".to_owned(), relay(2, 10));
        assert_eq!(queues.waiting(), ["c.example"], "the other one does not wait for it");
        assert!(!queues.may_try("b.example", 400) && queues.may_try("b.example", 1000));
        for _ in 0..20 {
            queues.failed("b.example", 0, &ids);
        }
        assert!(!queues.may_try("b.example", 140_000) && queues.may_try("b.example", 300_000));
        queues.on_event(&Event::signal(&PeerUp { issuer: "b.example".to_owned() }));
        assert!(queues.may_try("b.example", 0));
        queues.begin("b.example");
        assert!(!queues.may_try("b.example", 0));
        queues.succeeded("b.example");
        queues.push("b.example".to_owned(), relay(3, 10));
        assert_eq!(versions(&queues), [3]);
        queues.forget(i64::MAX / 2);
        assert_eq!(queues.domains.lock().by_issuer.len(), 1, "something waits for the other one");
    }
}
