//! Calls by method and by service, over all processes.

use super::samples::{Histogram, Quantiles};
use super::snapshot::Increase;
use std::collections::BTreeMap;

/// One method, as the gateway measured it and as the service did; what lies between is the mesh.
#[derive(Debug, Default)]
pub struct MethodRow {
    pub name: String,
    pub calls: f64,
    pub errors: f64,
    pub gateway: Quantiles,
    pub service: Quantiles,
}

/// A namespace, over all processes that run it.
#[derive(Debug, Default)]
pub struct TopServiceRow {
    pub namespace: String,
    pub calls: f64,
    /// Calls that its store or its process could not serve.
    pub unavailable: f64,
    pub times: Quantiles,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortOrder {
    #[default]
    Calls,
    Errors,
    Slowest,
    Name,
}

impl SortOrder {
    pub fn next(self) -> SortOrder {
        match self {
            SortOrder::Calls => SortOrder::Errors,
            SortOrder::Errors => SortOrder::Slowest,
            SortOrder::Slowest => SortOrder::Name,
            SortOrder::Name => SortOrder::Calls,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            SortOrder::Calls => "calls",
            SortOrder::Errors => "errors",
            SortOrder::Slowest => "p99",
            SortOrder::Name => "name",
        }
    }
}

/// Calls by method, those that gateways answered apart from those that services did for other processes.
#[derive(Default)]
pub(super) struct MethodCounts {
    by_name: BTreeMap<String, [CallCounts; 2]>,
}

#[derive(Default)]
struct CallCounts {
    calls: f64,
    errors: f64,
    unavailable: f64,
    times: Histogram,
}

impl MethodCounts {
    pub fn add(&mut self, increase: &Increase, service: bool) {
        for (labels, count) in increase.samples.of("aund_requests_total").filter(|(_, count)| *count > 0.0) {
            let counted = &mut self.entry(labels.get("method"))[usize::from(service)];
            counted.calls += count / increase.seconds;
            match labels.get("code") {
                "0" => {}
                "5003" => {
                    counted.errors += count / increase.seconds;
                    counted.unavailable += count / increase.seconds;
                }
                _ => counted.errors += count / increase.seconds,
            }
        }
        for (labels, count) in increase.samples.of("aund_request_duration_seconds_bucket") {
            self.entry(labels.get("method"))[usize::from(service)].times.add(labels.get("le"), count);
        }
    }

    fn entry(&mut self, method: &str) -> &mut [CallCounts; 2] {
        self.by_name.entry(method.to_owned()).or_default()
    }

    pub fn rows(self, order: SortOrder) -> Vec<MethodRow> {
        let rows = self.by_name.into_iter().map(|(name, [gateway, service])| {
            // A call that a gateway forwarded is counted by both, a call from one service to another only by the service.
            let counted = if gateway.calls > 0.0 { &gateway } else { &service };
            let (calls, errors) = (counted.calls, counted.errors);
            MethodRow { name, calls, errors, gateway: gateway.times.times(), service: service.times.times() }
        });
        let mut rows: Vec<MethodRow> = rows.filter(|row| row.calls > 0.0).collect();
        let p99 = |row: &MethodRow| row.gateway.or(row.service).map_or(0.0, |(_, p99)| p99);
        match order {
            SortOrder::Calls => rows.sort_by(|a, b| b.calls.total_cmp(&a.calls)),
            SortOrder::Errors => rows.sort_by(|a, b| b.errors.total_cmp(&a.errors)),
            SortOrder::Slowest => rows.sort_by(|a, b| p99(b).total_cmp(&p99(a))),
            SortOrder::Name => {}
        }
        rows
    }

    /// As measured by the process that runs the service: the service's own, or the gateway's where both are one process.
    pub fn services(&self) -> Vec<TopServiceRow> {
        let mut services: BTreeMap<&str, CallCounts> = BTreeMap::new();
        for (name, [gateway, service]) in &self.by_name {
            let counted = if service.calls > 0.0 { service } else { gateway };
            let Some((namespace, _)) = name.split_once('.').filter(|_| counted.calls > 0.0) else { continue };
            // The gateway answers these by itself; they have no service.
            if matches!(namespace, "meta" | "rpc") {
                continue;
            }
            let sum = services.entry(namespace).or_default();
            sum.calls += counted.calls;
            sum.unavailable += gateway.unavailable.max(service.unavailable);
            sum.times.join(&counted.times);
        }
        let rows = services.into_iter().map(|(namespace, counted)| TopServiceRow {
            namespace: namespace.to_owned(),
            calls: counted.calls,
            unavailable: counted.unavailable,
            times: counted.times.times(),
        });
        rows.collect()
    }
}
