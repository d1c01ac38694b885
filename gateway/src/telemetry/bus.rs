//! Events and presence over several processes.

use super::{counted, measured};
use kernel::BusStats;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct BusMetrics {
    queue_bytes: Gauge,
    dropped: Counter,
    errors: Counter,
    lag_seconds: Gauge<f64, AtomicU64>,
    up: Gauge,
    sessions: Gauge,
}

impl BusMetrics {
    pub fn register(registry: &mut Registry) -> BusMetrics {
        let waiting = "Bytes of events waiting to be published to other processes";
        let dropped = "Events that were not published to other processes because the queue was full or Redis was unreachable for too long";
        let lag = "Round-trip time of this process's last heartbeat through Redis";
        let sessions = "Long connections to all gateways, as known to this process";
        BusMetrics {
            queue_bytes: measured(registry, "bus_queue", waiting, Unit::Bytes),
            dropped: counted(registry, "bus_dropped", dropped),
            errors: counted(registry, "bus_errors", "Redis commands that failed"),
            lag_seconds: measured(registry, "bus_lag", lag, Unit::Seconds),
            up: counted(
                registry,
                "bus_up",
                "1 while this process receives events over Redis; 0 with bus.url local:",
            ),
            sessions: counted(registry, "presence_sessions", sessions),
        }
    }

    /// Copied at the time of a scrape: the bus counts by itself.
    pub fn set(&self, stats: BusStats, sessions: usize) {
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.queue_bytes.set(whole(stats.queue_bytes));
        self.dropped.inner().store(stats.dropped, Ordering::Relaxed);
        self.errors.inner().store(stats.errors, Ordering::Relaxed);
        self.lag_seconds.set(stats.lag_ms as f64 / 1000.0);
        self.up.set(i64::from(stats.up));
        self.sessions.set(whole(sessions));
    }
}
