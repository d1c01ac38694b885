//! The stores of one process, by service.

use super::model::{Grown, Store};
use super::numbers::{Histogram, Numbers};

pub(super) fn of(process: &str, numbers: &Numbers, grown: &Grown) -> Vec<Store> {
    let services =
        numbers.of("aund_store_commit_duration_seconds_count").map(|(labels, _)| labels.get("service"));
    services.map(|service| of_service(process, service, numbers, grown)).collect()
}

/// Failures and refusals are shown since the start, so that one in the night is still seen in the morning.
fn of_service(process: &str, service: &str, numbers: &Numbers, grown: &Grown) -> Store {
    let commits = one(&grown.numbers, "aund_store_commit_duration_seconds_count", service);
    let mut times = Histogram::default();
    let buckets = grown.numbers.of("aund_store_commit_duration_seconds_bucket");
    for (labels, count) in buckets.filter(|(labels, _)| labels.get("service") == service) {
        times.add(labels.get("le"), count);
    }
    Store {
        process: process.to_owned(),
        service: service.to_owned(),
        commits: commits / grown.seconds,
        rows_each: (commits > 0.0).then(|| one(&grown.numbers, "aund_store_rows_total", service) / commits),
        times: times.times(),
        queue_bytes: one(numbers, "aund_store_queue_bytes", service),
        failures: one(numbers, "aund_store_failures_total", service),
        busy: one(numbers, "aund_store_busy_total", service),
    }
}

fn one(numbers: &Numbers, name: &str, service: &str) -> f64 {
    let same = numbers.of(name).filter(|(labels, _)| labels.get("service") == service);
    same.fold(0.0, |sum, (_, value)| sum + value)
}
