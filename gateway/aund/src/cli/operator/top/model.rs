//! What `aund top` shows, made of the metrics of every process.

use super::methods::{MethodCounts, MethodRow, SortOrder, TopServiceRow};
use super::samples::MetricSamples;
use super::snapshot::{Increase, ProcessSnapshot};
use super::stores::{self, StoreRow};

/// Counts are per second between two snapshots, and since the start in the first one.
#[derive(Debug, Default)]
pub struct TopModel {
    pub per_second: bool,
    pub processes: Vec<ProcessRow>,
    pub methods: Vec<MethodRow>,
    pub services: Vec<TopServiceRow>,
    pub stores: Vec<StoreRow>,
    pub links: Vec<LinkRow>,
    pub buses: Vec<BusRow>,
}

#[derive(Debug, Default)]
pub struct ProcessRow {
    pub name: String,
    pub services: String,
    pub up: bool,
    pub sockets: f64,
    pub sessions: f64,
    pub outbox_bytes: f64,
    pub calls: f64,
    pub errors: f64,
}

#[derive(Debug, Default)]
pub struct LinkRow {
    pub from: String,
    pub namespace: String,
    pub address: String,
    pub up: bool,
    pub calls: f64,
    pub pending: f64,
    pub redials: f64,
}

#[derive(Debug, Default)]
pub struct BusRow {
    pub process: String,
    pub up: bool,
    pub lag_seconds: f64,
    pub queue_bytes: f64,
    pub dropped: f64,
    pub errors: f64,
    pub sessions: f64,
}

impl TopModel {
    pub fn new(before: Option<&[ProcessSnapshot]>, now: &[ProcessSnapshot], order: SortOrder) -> TopModel {
        let mut model = TopModel { per_second: before.is_some(), ..TopModel::default() };
        let mut methods = MethodCounts::default();
        for snapshot in now {
            let earlier =
                before.and_then(|snapshots| snapshots.iter().find(|other| other.process == snapshot.process));
            let Some(samples) = &snapshot.samples else {
                model.processes.push(ProcessRow { name: snapshot.process.clone(), ..ProcessRow::default() });
                continue;
            };
            let increase = Increase::new(model.per_second, earlier, snapshot, samples);
            model.processes.push(process(&snapshot.process, samples, &increase));
            model.stores.extend(stores::of(&snapshot.process, samples, &increase));
            model.links.extend(links(&snapshot.process, samples, &increase));
            model.buses.extend(bus(&snapshot.process, samples));
            methods.add(&increase, !is_gateway(samples));
        }
        model.services = methods.services();
        model.methods = methods.rows(order);
        model
    }
}

/// A process that does not say what it runs is an older one, which has a gateway.
fn is_gateway(samples: &MetricSamples) -> bool {
    let mut services = samples.of("aund_service").peekable();
    services.peek().is_none() || services.any(|(labels, _)| labels.get("service") == "gateway")
}

fn process(name: &str, samples: &MetricSamples, increase: &Increase) -> ProcessRow {
    let services: Vec<&str> = samples.of("aund_service").map(|(labels, _)| labels.get("service")).collect();
    ProcessRow {
        name: name.to_owned(),
        services: services.join(" "),
        up: true,
        sockets: samples.sum("aund_sockets"),
        sessions: samples.sum("aund_sessions"),
        outbox_bytes: samples.sum("aund_outbox_bytes"),
        calls: increase.calls(|_| true),
        errors: increase.calls(|code| code != "0"),
    }
}

fn links(from: &str, samples: &MetricSamples, increase: &Increase) -> Vec<LinkRow> {
    let one = |name: &str, samples: &MetricSamples, namespace: &str, address: &str| -> f64 {
        let same = samples
            .of(name)
            .filter(|(labels, _)| labels.get("namespace") == namespace && labels.get("address") == address);
        same.fold(0.0, |sum, (_, value)| sum + value)
    };
    let rows = samples.of("aund_mesh_link_up").map(|(labels, up)| {
        let (namespace, address) = (labels.get("namespace"), labels.get("address"));
        LinkRow {
            from: from.to_owned(),
            namespace: namespace.to_owned(),
            address: address.to_owned(),
            up: up > 0.0,
            calls: one("aund_mesh_calls_total", &increase.samples, namespace, address) / increase.seconds,
            pending: one("aund_mesh_pending", samples, namespace, address),
            redials: one("aund_mesh_redials_total", samples, namespace, address),
        }
    });
    rows.collect()
}

/// Nothing where events stay inside the process: then the bus is neither up nor did it ever fail.
fn bus(process: &str, samples: &MetricSamples) -> Option<BusRow> {
    if samples.sum("aund_bus_up") + samples.sum("aund_bus_errors_total") == 0.0 {
        return None;
    }
    Some(BusRow {
        process: process.to_owned(),
        up: samples.sum("aund_bus_up") > 0.0,
        lag_seconds: samples.sum("aund_bus_lag_seconds"),
        queue_bytes: samples.sum("aund_bus_queue_bytes"),
        dropped: samples.sum("aund_bus_dropped_total"),
        errors: samples.sum("aund_bus_errors_total"),
        sessions: samples.sum("aund_presence_sessions"),
    })
}
