//! What the operator sees: log lines and metrics. Never a payload, token or key.

use crate::config::{Log, LogFormat};
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use proto_schemas::Method;
use services::kernel::BusStats;
use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing_subscriber::EnvFilter;

/// Logs go to standard error; standard output is for what the command was asked to print.
pub fn init(log: &Log) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&log.level).map_err(|error| anyhow::anyhow!("log.level: {error}"))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // A second server in one process (tests) keeps the first one's subscriber.
    let _ = match log.format {
        LogFormat::Text => lines.with_target(false).try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    method: &'static str,
    code: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabels {
    method: &'static str,
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
struct PartLabels {
    part: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LinkLabels {
    namespace: &'static str,
    address: String,
}

/// One link to another process of the mesh.
#[derive(Clone)]
pub struct LinkMetrics {
    pub up: Gauge,
    pub calls: Counter,
    pub pending: Gauge,
    pub redials: Counter,
}

/// The counters of one method, found once and kept, so that a call costs no look-up.
#[derive(Clone)]
pub struct MethodMetrics {
    pub name: &'static str,
    /// Where it stands in the list: whoever comes back to it later needs no look-up either.
    pub place: usize,
    /// What the law says of it; nothing if it does not know it.
    pub schema: Option<&'static Method>,
    ok: Counter,
    seconds: Histogram,
}

/// How calls to other domains ended.
pub struct Relayed {
    pub answered: Counter,
    pub refused: Counter,
    pub timeout: Counter,
    pub unreachable: Counter,
}

impl Relayed {
    fn of(relays: &Family<OutcomeLabels, Counter>) -> Relayed {
        let of = |outcome| relays.get_or_create_owned(&OutcomeLabels { outcome });
        Relayed {
            answered: of("answered"),
            refused: of("refused"),
            timeout: of("timeout"),
            unreachable: of("unreachable"),
        }
    }
}

pub struct Metrics {
    registry: Registry,
    calls: Family<CallLabels, Counter>,
    closes: Family<CloseLabels, Counter>,
    refused: Family<ReasonLabels, Counter>,
    http: Family<HttpLabels, Counter>,
    link_up: Family<LinkLabels, Gauge>,
    link_calls: Family<LinkLabels, Counter>,
    link_pending: Family<LinkLabels, Gauge>,
    link_redials: Family<LinkLabels, Counter>,
    /// Names that no schema knows share the last one.
    methods: Vec<MethodMetrics>,
    places: HashMap<&'static str, usize>,
    /// `meta.ping` without an error.
    pub pings: Counter,
    pub sockets: Gauge,
    pub sessions: Gauge,
    pub outbox_bytes: Gauge,
    pub full_outboxes: Counter,
    pub events: Counter,
    bus_queue_bytes: Gauge,
    bus_dropped: Counter,
    bus_errors: Counter,
    bus_lag_seconds: Gauge<f64, AtomicU64>,
    bus_up: Gauge,
    presence_seats: Gauge,
    parts: Family<PartLabels, Gauge>,
    relays: Family<OutcomeLabels, Counter>,
    pub relayed: Relayed,
    pub federation_links: Gauge,
    pub federation_queue_bytes: Gauge,
    pub federation_oldest_seconds: Gauge<f64, AtomicU64>,
}

impl Metrics {
    pub fn new() -> Metrics {
        let mut registry = Registry::with_prefix("aund");
        let calls = Family::<CallLabels, Counter>::default();
        registry.register(
            "requests",
            "Calls answered, by method and error code (0: no error)",
            calls.clone(),
        );
        let seconds = Family::<MethodLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(exponential_buckets(0.000_01, 4.0, 11))
        });
        registry.register_with_unit(
            "request_duration",
            "How long calls took",
            Unit::Seconds,
            seconds.clone(),
        );
        let of = |(place, name): (usize, &'static str)| MethodMetrics {
            name,
            place,
            schema: proto_schemas::find(name),
            ok: calls.get_or_create_owned(&CallLabels { method: name, code: 0 }),
            seconds: seconds.get_or_create_owned(&MethodLabels { method: name }),
        };
        let names = proto_schemas::methods().iter().map(|method| method.name).chain(["unknown"]);
        let methods: Vec<_> = names.enumerate().map(of).collect();
        let places: HashMap<_, _> = methods.iter().map(|method| (method.name, method.place)).collect();
        let pings = methods[places["meta.ping"]].ok.clone();
        let relays = Family::default();
        let mut metrics = Metrics {
            pings,
            methods,
            places,
            calls,
            closes: Family::default(),
            refused: Family::default(),
            http: Family::default(),
            link_up: Family::default(),
            link_calls: Family::default(),
            link_pending: Family::default(),
            link_redials: Family::default(),
            sockets: Gauge::default(),
            sessions: Gauge::default(),
            outbox_bytes: Gauge::default(),
            full_outboxes: Counter::default(),
            events: Counter::default(),
            bus_queue_bytes: Gauge::default(),
            bus_dropped: Counter::default(),
            bus_errors: Counter::default(),
            bus_lag_seconds: Gauge::default(),
            bus_up: Gauge::default(),
            presence_seats: Gauge::default(),
            parts: Family::default(),
            relayed: Relayed::of(&relays),
            relays,
            federation_links: Gauge::default(),
            federation_queue_bytes: Gauge::default(),
            federation_oldest_seconds: Gauge::default(),
            registry,
        };
        let registry = &mut metrics.registry;
        registry.register("closes", "WebSockets closed by the server, by close code", metrics.closes.clone());
        registry.register("refused_sockets", "Sockets not taken, by reason", metrics.refused.clone());
        registry.register("http_responses", "HTTP answers, by route and status", metrics.http.clone());
        registry.register("sockets", "Open WebSockets", metrics.sockets.clone());
        registry.register("sessions", "WebSockets that logged in", metrics.sessions.clone());
        registry.register_with_unit(
            "outbox",
            "Bytes that wait to be written to clients",
            Unit::Bytes,
            metrics.outbox_bytes.clone(),
        );
        registry.register(
            "full_outboxes",
            "Readers closed because too much waited",
            metrics.full_outboxes.clone(),
        );
        registry.register("events", "Events handed to sessions", metrics.events.clone());
        registry.register("mesh_link_up", "Links to other processes: 1 is up", metrics.link_up.clone());
        registry.register("mesh_calls", "Calls sent over a link", metrics.link_calls.clone());
        registry.register("mesh_pending", "Calls under way on a link", metrics.link_pending.clone());
        registry.register("mesh_redials", "Times a link was dialled again", metrics.link_redials.clone());
        registry.register("part", "What runs in this process: 1 for each part", metrics.parts.clone());
        metrics.register_bus();
        metrics.register_federation();
        metrics
    }

    pub fn link(&self, namespace: &'static str, address: &str) -> LinkMetrics {
        let labels = LinkLabels { namespace, address: address.to_owned() };
        LinkMetrics {
            up: self.link_up.get_or_create_owned(&labels),
            calls: self.link_calls.get_or_create_owned(&labels),
            pending: self.link_pending.get_or_create_owned(&labels),
            redials: self.link_redials.get_or_create_owned(&labels),
        }
    }

    /// Says that this process runs a part of the server.
    pub fn runs(&self, part: &'static str) {
        self.parts.get_or_create(&PartLabels { part }).set(1);
    }

    fn register_bus(&mut self) {
        let registry = &mut self.registry;
        registry.register_with_unit(
            "bus_queue",
            "Bytes of events that wait to be published to other processes",
            Unit::Bytes,
            self.bus_queue_bytes.clone(),
        );
        registry.register(
            "bus_dropped",
            "Events that other processes were not told of: the queue was full, or Redis away too long",
            self.bus_dropped.clone(),
        );
        registry.register("bus_errors", "Commands that Redis did not answer well", self.bus_errors.clone());
        registry.register_with_unit(
            "bus_lag",
            "How long the last heartbeat of this gateway took through Redis",
            Unit::Seconds,
            self.bus_lag_seconds.clone(),
        );
        registry.register("bus_up", "Whether other processes are heard", self.bus_up.clone());
        registry.register(
            "presence_seats",
            "Long connections to all gateways, as far as this process knows",
            self.presence_seats.clone(),
        );
    }

    /// Totals only: how many domains there are is for strangers to decide.
    fn register_federation(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "federation_relays",
            "Calls to other domains that ended, by outcome",
            self.relays.clone(),
        );
        registry.register(
            "federation_links",
            "Links to other domains that are up",
            self.federation_links.clone(),
        );
        registry.register_with_unit(
            "federation_queue",
            "Bytes of calls that wait for other domains or are under way to them",
            Unit::Bytes,
            self.federation_queue_bytes.clone(),
        );
        registry.register_with_unit(
            "federation_oldest",
            "How long the oldest of these calls has waited",
            Unit::Seconds,
            self.federation_oldest_seconds.clone(),
        );
    }

    /// Taken over when somebody asks: the bus counts by itself.
    pub fn take_bus(&self, stats: BusStats, seats: usize) {
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.bus_queue_bytes.set(whole(stats.queue_bytes));
        self.bus_dropped.inner().store(stats.dropped, Ordering::Relaxed);
        self.bus_errors.inner().store(stats.errors, Ordering::Relaxed);
        self.bus_lag_seconds.set(stats.lag_ms as f64 / 1000.0);
        self.bus_up.set(i64::from(stats.up));
        self.presence_seats.set(whole(seats));
    }

    /// Names that no schema knows share one row: a stranger must not make the table grow.
    pub fn method(&self, name: &str) -> &MethodMetrics {
        self.method_at(self.places.get(name).copied().unwrap_or(self.methods.len() - 1))
    }

    pub fn method_at(&self, place: usize) -> &MethodMetrics {
        &self.methods[place]
    }

    pub fn answered(&self, method: &MethodMetrics, code: i32, seconds: f64) {
        match code {
            0 => method.ok.inc(),
            code => self.calls.get_or_create(&CallLabels { method: method.name, code }).inc(),
        };
        method.seconds.observe(seconds);
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
        match encode(&mut text, &self.registry) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every metric as it stands in front of its value, a histogram by its own name.
    fn names(text: &str) -> Vec<String> {
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        types.map(|(name, kind)| format!("{name}{}", if kind == "counter" { "_total" } else { "" })).collect()
    }

    #[test]
    fn the_guide_for_operators_names_every_metric_and_no_other() {
        let metrics = Metrics::new();
        metrics.closed(1012);
        metrics.refused("sockets");
        metrics.http("health", 200);
        metrics.runs("ca");
        metrics.link("ca", "wss://127.0.0.1:7443");
        let (text, guide) = (metrics.text(), include_str!("../../docs/operations.md"));
        let names = names(&text);
        for name in &names {
            assert!(guide.contains(&format!("| `{name}")), "{name} has no line in the table of the guide");
        }
        for told in guide.split('`').skip(1).step_by(2).filter(|word| word.starts_with("aund_")) {
            let told = told.split('{').next().unwrap_or(told);
            assert!(names.iter().any(|name| name == told), "the guide tells of {told}, which does not exist");
        }
        let help = text.lines().filter(|line| line.starts_with("# HELP ")).count();
        assert_eq!(names.len(), help, "each says what it is");
    }
}
