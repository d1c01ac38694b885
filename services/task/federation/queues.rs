//! What is to be told to other domains at once.
//!
//! A queue is short and in memory only. What does not fit is dropped: its mark in the outbox stays, and the domain is told of it later.

use super::draft::TaskRelay;
use crate::store::MOST_ITEMS;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::Notify;

/// What may wait for one domain, and for all of them.
const DOMAIN_BYTES: usize = 4 << 20;
const ALL_BYTES: usize = 32 << 20;
/// What one call tells.
const CALL_BYTES: usize = 512 << 10;
/// What an item weighs beside its text.
const ITEM_WEIGHT: usize = 256;

#[derive(Default)]
pub(crate) struct RelayQueues {
    domains: Mutex<QueuedDomains>,
    pub wake: Notify,
}

#[derive(Default)]
struct QueuedDomains {
    /// In the order of their names; a domain is here while something waits for it.
    by_issuer: BTreeMap<String, QueuedDomain>,
    bytes: usize,
}

#[derive(Default)]
struct QueuedDomain {
    waiting: VecDeque<TaskRelay>,
    bytes: usize,
}

impl RelayQueues {
    pub fn push(&self, issuer: String, relay: TaskRelay) {
        let mut domains = self.domains.lock();
        let (weight, all) = (relay.weight(), domains.bytes);
        let domain = domains.by_issuer.entry(issuer).or_default();
        if domain.bytes + weight > DOMAIN_BYTES || all + weight > ALL_BYTES {
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
        let (weight, is_empty) =
            (taken.iter().map(TaskRelay::weight).sum::<usize>(), domain.waiting.is_empty());
        domain.bytes -= weight;
        domains.bytes -= weight;
        if is_empty {
            domains.by_issuer.remove(issuer);
        }
        taken
    }

    /// Drops what waits for a domain that cannot be told now.
    pub fn clear(&self, issuer: &str) {
        let mut domains = self.domains.lock();
        let dropped = domains.by_issuer.remove(issuer).map_or(0, |domain| domain.bytes);
        domains.bytes -= dropped;
    }

    /// The domains for which something waits.
    pub fn waiting(&self) -> Vec<String> {
        let domains = self.domains.lock();
        let waiting = domains.by_issuer.iter().filter(|(_, domain)| !domain.waiting.is_empty());
        waiting.map(|(issuer, _)| issuer.clone()).collect()
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
    use proto_schemas::requests::task::TaskId;
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
    fn what_waits_for_a_domain_is_dropped_alone() {
        let queues = RelayQueues::default();
        queues.push("b.example".to_owned(), relay(1, 10));
        queues.push("c.example".to_owned(), relay(1, 10));
        queues.clear("b.example");
        assert_eq!(queues.waiting(), ["c.example"], "the other one does not wait for it");
        queues.clear("c.example");
        assert_eq!(queues.domains.lock().bytes, 0);
    }
}
