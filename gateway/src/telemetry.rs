//! Logs and metrics. Never a payload, token or key.

mod bus;
mod calls;
mod disk;
mod lag;
mod links;
mod relays;
mod stores;
mod tasks;

use crate::config::{LogConfig, LogFormat};
use bus::BusMetrics;
use calls::CallMetrics;
use disk::DiskMetrics;
use kernel::{BusStats, Disk, ServiceMetrics, Stores, Tasks, World};
use links::MeshLinkMetrics;
use prometheus_client::encoding::{
    EncodeLabelSet,
    text::{encode_eof, encode_registry},
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};
use relays::RelayMetrics;
use std::io::IsTerminal as _;
use std::sync::atomic::AtomicU64;
use stores::StoreMetrics;
use tasks::TaskMetrics;
use tracing_subscriber::EnvFilter;

pub use calls::MethodMetrics;
pub use lag::watch_lag;
pub use links::LinkMetrics;

/// Logs go to standard error; standard output is for what the command was asked to print.
pub fn init(log: &LogConfig) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&log.level).map_err(|error| anyhow::anyhow!("log.level: {error}"))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Otherwise it would panic where standard error is on a disk that is full.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    // A second server in one process (tests) keeps the first one's subscriber.
    let _ = match log.format {
        LogFormat::Text => lines.with_target(false).try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CloseLabels {
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HttpLabels {
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServiceLabels {
    service: &'static str,
}

pub struct Metrics {
    registry: Registry,
    of_services: ServiceMetrics,
    calls: CallMetrics,
    /// `meta.ping` without an error.
    pub pings: Counter,
    closes: Family<CloseLabels, Counter>,
    refused: Family<ReasonLabels, Counter>,
    http: Family<HttpLabels, Counter>,
    pub sockets: Gauge,
    pub sessions: Gauge,
    pub outbox_bytes: Gauge,
    pub full_outboxes: Counter,
    pub events: Counter,
    links: MeshLinkMetrics,
    services: Family<ServiceLabels, Gauge>,
    bus: BusMetrics,
    pub relayed: RelayMetrics,
    pub federation_links: Gauge,
    pub federation_queue_bytes: Gauge,
    pub federation_oldest_seconds: Gauge<f64, AtomicU64>,
    pub runtime_lag: Histogram,
}

impl Metrics {
    pub fn new() -> Metrics {
        Metrics::with(&Stores::default(), &Disk::default(), &Tasks::default(), &ServiceMetrics::default())
    }

    /// The metrics of a process, with what is counted in its world.
    pub fn of(world: &World) -> Metrics {
        Metrics::with(&world.stores, &world.disk, &world.tasks, &world.metrics)
    }

    fn with(stores: &Stores, disk: &Disk, tasks: &Tasks, of_services: &ServiceMetrics) -> Metrics {
        let mut registry = Registry::with_prefix("aund");
        let all = &mut registry;
        let calls = CallMetrics::register(all);
        let outbox = "Bytes waiting to be written to clients, including incomplete answers to batches";
        let waiting = "Bytes of calls to other domains, waiting or in flight";
        let runtime_lag = lag::lag_histogram();
        let late = "Scheduling delay of the runtime: how long a due task waited for a thread";
        all.register_with_unit("runtime_lag", late, Unit::Seconds, runtime_lag.clone());
        let oldest = "Age of the oldest call that waits for another domain, in seconds";
        all.register_collector(Box::new(StoreMetrics(stores.clone())));
        all.register_collector(Box::new(DiskMetrics(disk.clone())));
        all.register_collector(Box::new(TaskMetrics(tasks.clone())));
        Metrics {
            pings: calls.method("meta.ping").ok.clone(),
            calls,
            closes: counted(all, "closes", "WebSockets closed by the server, by close code"),
            refused: counted(
                all,
                "refused_sockets",
                "Refused sockets, by limit; handshakes and http_unread: sockets closed in favour of others because they held most; proxy_header: no valid PROXY header",
            ),
            http: counted(all, "http_responses", "HTTP answers, by route and status"),
            sockets: counted(all, "sockets", "Open WebSockets, logged in or not"),
            sessions: counted(all, "sessions", "Logged-in WebSockets"),
            outbox_bytes: measured(all, "outbox", outbox, Unit::Bytes),
            full_outboxes: counted(all, "full_outboxes", "Connections closed because their outbox was full"),
            events: counted(all, "events", "Events delivered to sessions"),
            links: MeshLinkMetrics::register(all),
            services: counted(
                all,
                "service",
                "1 for each service that runs in this process, including the gateway",
            ),
            bus: BusMetrics::register(all),
            relayed: RelayMetrics::register(all),
            federation_links: counted(all, "federation_links", "Links to other domains that are up"),
            federation_queue_bytes: measured(all, "federation_queue", waiting, Unit::Bytes),
            federation_oldest_seconds: measured(all, "federation_oldest", oldest, Unit::Seconds),
            runtime_lag,
            registry,
            of_services: of_services.clone(),
        }
    }

    pub fn link(&self, namespace: &'static str, address: &str) -> LinkMetrics {
        self.links.link(namespace, address)
    }

    /// Says that this process runs a service.
    pub fn runs(&self, service: &'static str) {
        self.services.get_or_create(&ServiceLabels { service }).set(1);
    }

    /// Copied at the time of a scrape: the bus counts by itself.
    pub fn set_bus(&self, stats: BusStats, sessions: usize) {
        self.bus.set(stats, sessions);
    }

    pub fn method(&self, name: &str) -> &MethodMetrics {
        self.calls.method(name)
    }

    pub fn method_at(&self, position: usize) -> &MethodMetrics {
        self.calls.method_at(position)
    }

    pub fn answered(&self, method: &MethodMetrics, code: i32, seconds: f64) {
        self.calls.answered(method, code, seconds);
    }

    pub fn closed(&self, code: u16) {
        self.closes.get_or_create(&CloseLabels { code }).inc();
    }

    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabels { reason }).inc();
    }

    pub fn http(&self, route: &'static str, status: u16) {
        self.http.get_or_create(&HttpLabels { route, status }).inc();
    }

    /// The Prometheus text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let written = encode_registry(&mut text, &self.registry)
            .and_then(|()| self.of_services.encode(&mut text))
            .and_then(|()| encode_eof(&mut text));
        match written {
            Ok(()) => text,
            Err(error) => format!("# the metrics could not be written: {error}\n"),
        }
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

/// Registers a metric without a unit.
fn counted<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// The same with a unit, which becomes the last word of its name.
fn measured<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str, unit: Unit) -> M {
    let metric = M::default();
    registry.register_with_unit(name, help, unit, metric.clone());
    metric
}
