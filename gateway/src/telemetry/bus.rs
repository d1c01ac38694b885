//! Events and presence over several processes.

use super::{counted, measured};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use services::kernel::BusStats;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct BusMetrics {
    queue_bytes: Gauge,
    dropped: Counter,
    errors: Counter,
    lag_seconds: Gauge<f64, AtomicU64>,
    up: Gauge,
    seats: Gauge,
}

impl BusMetrics {
    pub fn register(registry: &mut Registry) -> BusMetrics {
        let waiting = "Bytes of events that wait to be published to other processes";
        let dropped =
            "Events that other processes were not told of: the queue was full, or Redis away too long";
        let lag = "How long the last heartbeat of this gateway took through Redis";
        let seats = "Long connections to all gateways, as far as this process knows";
        BusMetrics {
            queue_bytes: measured(registry, "bus_queue", waiting, Unit::Bytes),
            dropped: counted(registry, "bus_dropped", dropped),
            errors: counted(registry, "bus_errors", "Commands that Redis did not answer well"),
            lag_seconds: measured(registry, "bus_lag", lag, Unit::Seconds),
            up: counted(registry, "bus_up", "Whether other processes are heard"),
            seats: counted(registry, "presence_sessions", seats),
        }
    }

    /// Taken over when somebody asks: the bus counts by itself.
    pub fn take(&self, stats: BusStats, seats: usize) {
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.queue_bytes.set(whole(stats.queue_bytes));
        self.dropped.inner().store(stats.dropped, Ordering::Relaxed);
        self.errors.inner().store(stats.errors, Ordering::Relaxed);
        self.lag_seconds.set(stats.lag_ms as f64 / 1000.0);
        self.up.set(i64::from(stats.up));
        self.seats.set(whole(seats));
    }
}
