//! The stores of one process, by service.

use super::samples::{Histogram, MetricSamples, Quantiles};
use super::snapshot::Increase;

/// The store of one service in one process.
#[derive(Debug, Default)]
pub struct StoreRow {
    pub process: String,
    pub service: String,
    pub commits: f64,
    /// How many rows a commit had; nothing if there was none.
    pub rows_each: Option<f64>,
    pub times: Quantiles,
    pub queue_bytes: f64,
    pub failures: f64,
    pub busy: f64,
}

pub(super) fn of(process: &str, samples: &MetricSamples, increase: &Increase) -> Vec<StoreRow> {
    let services =
        samples.of("aund_store_commit_duration_seconds_count").map(|(labels, _)| labels.get("service"));
    services.map(|service| of_service(process, service, samples, increase)).collect()
}

/// Failures and refusals are shown since the start, so that one in the night is still shown in the morning.
fn of_service(process: &str, service: &str, samples: &MetricSamples, increase: &Increase) -> StoreRow {
    let commits = one(&increase.samples, "aund_store_commit_duration_seconds_count", service);
    let mut times = Histogram::default();
    let buckets = increase.samples.of("aund_store_commit_duration_seconds_bucket");
    for (labels, count) in buckets.filter(|(labels, _)| labels.get("service") == service) {
        times.add(labels.get("le"), count);
    }
    StoreRow {
        process: process.to_owned(),
        service: service.to_owned(),
        commits: commits / increase.seconds,
        rows_each: (commits > 0.0)
            .then(|| one(&increase.samples, "aund_store_rows_total", service) / commits),
        times: times.times(),
        queue_bytes: one(samples, "aund_store_queue_bytes", service),
        failures: one(samples, "aund_store_failures_total", service),
        busy: one(samples, "aund_store_busy_total", service),
    }
}

fn one(samples: &MetricSamples, name: &str, service: &str) -> f64 {
    let same = samples.of(name).filter(|(labels, _)| labels.get("service") == service);
    same.fold(0.0, |sum, (_, value)| sum + value)
}
