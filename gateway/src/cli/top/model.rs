//! What `aund top` shows, made of the numbers of every process.

use super::methods::Methods;
use super::numbers::Numbers;
use super::stores;
use std::time::Instant;

/// One look at one process.
pub struct Look {
    pub process: String,
    /// Nothing if the process did not answer.
    pub numbers: Option<Numbers>,
    pub at: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Calls,
    Errors,
    Slowest,
    Name,
}

impl Order {
    pub fn next(self) -> Order {
        match self {
            Order::Calls => Order::Errors,
            Order::Errors => Order::Slowest,
            Order::Slowest => Order::Name,
            Order::Name => Order::Calls,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Order::Calls => "calls",
            Order::Errors => "errors",
            Order::Slowest => "p99",
            Order::Name => "name",
        }
    }
}

/// Counts are for each second between two looks, and since the start at the first one.
#[derive(Debug, Default)]
pub struct Model {
    pub per_second: bool,
    pub processes: Vec<Process>,
    pub methods: Vec<Method>,
    pub services: Vec<Service>,
    pub stores: Vec<Store>,
    pub links: Vec<Link>,
    pub buses: Vec<Bus>,
}

#[derive(Debug, Default)]
pub struct Process {
    pub name: String,
    pub parts: String,
    pub up: bool,
    pub sockets: f64,
    pub sessions: f64,
    pub outbox_bytes: f64,
    pub calls: f64,
    pub errors: f64,
}

/// How long the median and all but one in a hundred took, in seconds.
pub type Times = Option<(f64, f64)>;

/// One method, as the gateway measured it and as the service did; what lies between is the mesh.
#[derive(Debug, Default)]
pub struct Method {
    pub name: String,
    pub calls: f64,
    pub errors: f64,
    pub gateway: Times,
    pub service: Times,
}

/// A namespace, over all processes that run it.
#[derive(Debug, Default)]
pub struct Service {
    pub namespace: String,
    pub calls: f64,
    /// Calls that its store or its process could not serve.
    pub unavailable: f64,
    pub times: Times,
}

/// The store of one service in one process.
#[derive(Debug, Default)]
pub struct Store {
    pub process: String,
    pub service: String,
    pub commits: f64,
    /// How many rows a commit had; nothing if there was none.
    pub rows_each: Option<f64>,
    pub times: Times,
    pub queue_bytes: f64,
    pub failures: f64,
    pub busy: f64,
}

#[derive(Debug, Default)]
pub struct Link {
    pub from: String,
    pub namespace: String,
    pub address: String,
    pub up: bool,
    pub calls: f64,
    pub pending: f64,
    pub redials: f64,
}

#[derive(Debug, Default)]
pub struct Bus {
    pub process: String,
    pub up: bool,
    pub lag_seconds: f64,
    pub queue_bytes: f64,
    pub dropped: f64,
    pub errors: f64,
    pub seats: f64,
}

impl Model {
    pub fn new(before: Option<&[Look]>, now: &[Look], order: Order) -> Model {
        let mut model = Model { per_second: before.is_some(), ..Model::default() };
        let mut methods = Methods::default();
        for look in now {
            let earlier = before.and_then(|looks| looks.iter().find(|other| other.process == look.process));
            let Some(numbers) = &look.numbers else {
                model.processes.push(Process { name: look.process.clone(), ..Process::default() });
                continue;
            };
            let grown = Grown::new(model.per_second, earlier, look, numbers);
            model.processes.push(process(&look.process, numbers, &grown));
            model.stores.extend(stores::of(&look.process, numbers, &grown));
            model.links.extend(links(&look.process, numbers, &grown));
            model.buses.extend(bus(&look.process, numbers));
            methods.add(&grown, !is_gateway(numbers));
        }
        model.services = methods.services();
        model.methods = methods.rows(order);
        model
    }
}

/// What one process counted, and over how long: per second if there was an earlier look.
pub(super) struct Grown {
    pub numbers: Numbers,
    pub seconds: f64,
}

impl Grown {
    fn new(per_second: bool, before: Option<&Look>, now: &Look, numbers: &Numbers) -> Grown {
        match before.and_then(|look| Some((look, look.numbers.as_ref()?))) {
            Some((look, earlier)) => Grown {
                numbers: numbers.since(earlier),
                seconds: now.at.duration_since(look.at).as_secs_f64().max(0.001),
            },
            // A process that has only just come says nothing yet about the time between.
            None if per_second => Grown { numbers: numbers.since(numbers), seconds: 1.0 },
            None => Grown { numbers: numbers.clone(), seconds: 1.0 },
        }
    }

    fn calls(&self, wanted: impl Fn(&str) -> bool) -> f64 {
        let rows = self.numbers.of("aund_requests_total").filter(|(labels, _)| wanted(labels.get("code")));
        // Folded, because the sum of no floats is a negative nothing.
        rows.fold(0.0, |sum, (_, count)| sum + count) / self.seconds
    }
}

/// A process that does not say what it runs is an older one, which has a gateway.
fn is_gateway(numbers: &Numbers) -> bool {
    let mut parts = numbers.of("aund_service").peekable();
    parts.peek().is_none() || parts.any(|(labels, _)| labels.get("part") == "gateway")
}

fn process(name: &str, numbers: &Numbers, grown: &Grown) -> Process {
    let parts: Vec<&str> = numbers.of("aund_service").map(|(labels, _)| labels.get("service")).collect();
    Process {
        name: name.to_owned(),
        parts: parts.join(" "),
        up: true,
        sockets: numbers.sum("aund_sockets"),
        sessions: numbers.sum("aund_sessions"),
        outbox_bytes: numbers.sum("aund_outbox_bytes"),
        calls: grown.calls(|_| true),
        errors: grown.calls(|code| code != "0"),
    }
}

fn links(from: &str, numbers: &Numbers, grown: &Grown) -> Vec<Link> {
    let one = |name: &str, numbers: &Numbers, namespace: &str, address: &str| -> f64 {
        let same = numbers
            .of(name)
            .filter(|(labels, _)| labels.get("namespace") == namespace && labels.get("address") == address);
        same.fold(0.0, |sum, (_, value)| sum + value)
    };
    let rows = numbers.of("aund_mesh_link_up").map(|(labels, up)| {
        let (namespace, address) = (labels.get("namespace"), labels.get("address"));
        Link {
            from: from.to_owned(),
            namespace: namespace.to_owned(),
            address: address.to_owned(),
            up: up > 0.0,
            calls: one("aund_mesh_calls_total", &grown.numbers, namespace, address) / grown.seconds,
            pending: one("aund_mesh_pending", numbers, namespace, address),
            redials: one("aund_mesh_redials_total", numbers, namespace, address),
        }
    });
    rows.collect()
}

/// Nothing where events stay inside the process: then the bus is neither up nor ever failed.
fn bus(process: &str, numbers: &Numbers) -> Option<Bus> {
    if numbers.sum("aund_bus_up") + numbers.sum("aund_bus_errors_total") == 0.0 {
        return None;
    }
    Some(Bus {
        process: process.to_owned(),
        up: numbers.sum("aund_bus_up") > 0.0,
        lag_seconds: numbers.sum("aund_bus_lag_seconds"),
        queue_bytes: numbers.sum("aund_bus_queue_bytes"),
        dropped: numbers.sum("aund_bus_dropped_total"),
        errors: numbers.sum("aund_bus_errors_total"),
        seats: numbers.sum("aund_presence_sessions"),
    })
}
