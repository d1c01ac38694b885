//! What is counted for one peer domain: the load of its queue, for the limits, and how its relays ended, for the metrics and
//! the operator.

use crate::telemetry::Metrics;
use kernel::codes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

pub struct PeerCounters {
    pub issuer: String,
    pub load: QueueLoad,
    /// The load of all peer queues together.
    pub total: Arc<QueueLoad>,
    pub metrics: Arc<Metrics>,
    pub in_flight: AtomicUsize,
    /// How long the oldest relay has waited, when it was last measured.
    pub oldest_ms: AtomicU64,
    pub relayed: AtomicU64,
    pub failed: AtomicU64,
}

/// Relays that are queued or in flight.
#[derive(Default)]
pub struct QueueLoad {
    pub bytes: AtomicUsize,
    pub items: AtomicUsize,
}

/// Counts one relay in the load of its peer queue, and of all of them together, until it is dropped.
pub struct CountedLoad {
    bytes: usize,
    counters: Arc<PeerCounters>,
}

impl PeerCounters {
    pub fn new(issuer: &str, total: &Arc<QueueLoad>, metrics: &Arc<Metrics>) -> PeerCounters {
        PeerCounters {
            issuer: issuer.to_owned(),
            load: QueueLoad::default(),
            total: total.clone(),
            metrics: metrics.clone(),
            in_flight: AtomicUsize::new(0),
            oldest_ms: AtomicU64::new(0),
            relayed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// A relay ended with this code; 0 if it succeeded.
    pub fn ended(&self, code: i32) {
        let outcomes = &self.metrics.relayed;
        let (outcome, count) = match code {
            code if code == codes::FEDERATION_UNREACHABLE.code => (&outcomes.unreachable, &self.failed),
            code if code == codes::FEDERATION_TIMEOUT.code => (&outcomes.timeout, &self.failed),
            code if code == codes::FEDERATION_REFUSED.code => (&outcomes.refused, &self.failed),
            _ => (&outcomes.answered, &self.relayed),
        };
        outcome.inc();
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub fn set_oldest(&self, waited: Duration) {
        self.oldest_ms.store(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl QueueLoad {
    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.items.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.items.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CountedLoad {
    pub fn new(counters: &Arc<PeerCounters>, bytes: usize) -> CountedLoad {
        counters.load.add(bytes);
        counters.total.add(bytes);
        counters.metrics.federation_queue_bytes.inc_by(gauge(bytes));
        CountedLoad { bytes, counters: counters.clone() }
    }

    pub fn counters(&self) -> &PeerCounters {
        &self.counters
    }
}

impl Drop for CountedLoad {
    fn drop(&mut self) {
        self.counters.load.remove(self.bytes);
        self.counters.total.remove(self.bytes);
        self.counters.metrics.federation_queue_bytes.dec_by(gauge(self.bytes));
    }
}

fn gauge(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
