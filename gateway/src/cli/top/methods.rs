//! Calls by method and by service, over all processes.

use super::model::{Grown, Method, Order, Service};
use super::numbers::Histogram;
use std::collections::BTreeMap;

/// Calls by method, those that gateways answered apart from those that services did for other processes.
#[derive(Default)]
pub(super) struct Methods {
    by_name: BTreeMap<String, [Counted; 2]>,
}

#[derive(Default)]
struct Counted {
    calls: f64,
    errors: f64,
    unavailable: f64,
    times: Histogram,
}

impl Methods {
    pub fn add(&mut self, grown: &Grown, service: bool) {
        for (labels, count) in grown.numbers.of("aund_requests_total").filter(|(_, count)| *count > 0.0) {
            let counted = &mut self.entry(labels.get("method"))[usize::from(service)];
            counted.calls += count / grown.seconds;
            match labels.get("code") {
                "0" => {}
                "5003" => {
                    counted.errors += count / grown.seconds;
                    counted.unavailable += count / grown.seconds;
                }
                _ => counted.errors += count / grown.seconds,
            }
        }
        for (labels, count) in grown.numbers.of("aund_request_duration_seconds_bucket") {
            self.entry(labels.get("method"))[usize::from(service)].times.add(labels.get("le"), count);
        }
    }

    fn entry(&mut self, method: &str) -> &mut [Counted; 2] {
        self.by_name.entry(method.to_owned()).or_default()
    }

    pub fn rows(self, order: Order) -> Vec<Method> {
        let rows = self.by_name.into_iter().map(|(name, [gateway, service])| {
            // What a gateway passed on is counted twice, what one service asks of another is not.
            let counted = if gateway.calls > 0.0 { &gateway } else { &service };
            let (calls, errors) = (counted.calls, counted.errors);
            Method { name, calls, errors, gateway: gateway.times.times(), service: service.times.times() }
        });
        let mut rows: Vec<Method> = rows.filter(|row| row.calls > 0.0).collect();
        let p99 = |row: &Method| row.gateway.or(row.service).map_or(0.0, |(_, p99)| p99);
        match order {
            Order::Calls => rows.sort_by(|a, b| b.calls.total_cmp(&a.calls)),
            Order::Errors => rows.sort_by(|a, b| b.errors.total_cmp(&a.errors)),
            Order::Slowest => rows.sort_by(|a, b| p99(b).total_cmp(&p99(a))),
            Order::Name => {}
        }
        rows
    }

    /// As the process saw it that did the work: the service's own, or the gateway's where both are one.
    pub fn services(&self) -> Vec<Service> {
        let mut services: BTreeMap<&str, Counted> = BTreeMap::new();
        for (name, [gateway, service]) in &self.by_name {
            let counted = if service.calls > 0.0 { service } else { gateway };
            let Some((namespace, _)) = name.split_once('.').filter(|_| counted.calls > 0.0) else { continue };
            // What the gateway answers by itself has no service.
            if matches!(namespace, "meta" | "rpc") {
                continue;
            }
            let sum = services.entry(namespace).or_default();
            sum.calls += counted.calls;
            sum.unavailable += gateway.unavailable.max(service.unavailable);
            sum.times.join(&counted.times);
        }
        let rows = services.into_iter().map(|(namespace, counted)| Service {
            namespace: namespace.to_owned(),
            calls: counted.calls,
            unavailable: counted.unavailable,
            times: counted.times.times(),
        });
        rows.collect()
    }
}
