//! The stores of one process, by room.

use super::model::{Grown, Store};
use super::numbers::{Histogram, Numbers};

pub(super) fn of(process: &str, numbers: &Numbers, grown: &Grown) -> Vec<Store> {
    let rooms = numbers.of("aund_store_commit_duration_seconds_count").map(|(labels, _)| labels.get("room"));
    rooms.map(|room| of_room(process, room, numbers, grown)).collect()
}

/// Failures and refusals are shown since the start, so that one in the night is still seen in the morning.
fn of_room(process: &str, room: &str, numbers: &Numbers, grown: &Grown) -> Store {
    let commits = one(&grown.numbers, "aund_store_commit_duration_seconds_count", room);
    let mut times = Histogram::default();
    let buckets = grown.numbers.of("aund_store_commit_duration_seconds_bucket");
    for (labels, count) in buckets.filter(|(labels, _)| labels.get("room") == room) {
        times.add(labels.get("le"), count);
    }
    Store {
        process: process.to_owned(),
        room: room.to_owned(),
        commits: commits / grown.seconds,
        rows_each: (commits > 0.0).then(|| one(&grown.numbers, "aund_store_rows_total", room) / commits),
        times: times.times(),
        queue_bytes: one(numbers, "aund_store_queue_bytes", room),
        failures: one(numbers, "aund_store_failures_total", room),
        busy: one(numbers, "aund_store_busy_total", room),
    }
}

fn one(numbers: &Numbers, name: &str, room: &str) -> f64 {
    let same = numbers.of(name).filter(|(labels, _)| labels.get("room") == room);
    same.fold(0.0, |sum, (_, value)| sum + value)
}
