//! The stores of the services in this process. They count by themselves; a scrape reads their counters.

use super::ServiceLabels;
use kernel::{StoreStats, Stores};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::fmt;

pub(super) struct StoreMetrics(pub Stores);

impl fmt::Debug for StoreMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreMetrics")
    }
}

/// The state of every store at one moment.
type StoreSnapshots = [(&'static str, StoreStats)];

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let stores = self.0.stats();
        // A process without a store has no such metrics.
        if stores.is_empty() {
            return Ok(());
        }
        commits(&mut encoder, &stores)?;
        let counter = |count: u64| Some(ConstCounter::new(count));
        let gauge = |bytes: usize| ConstGauge::new(i64::try_from(bytes).unwrap_or(i64::MAX));
        let help = "Stored rows; divided by the number of commits: rows per commit";
        each(&mut encoder, "store_rows", help, None, &stores, |store| counter(store.rows))?;
        let help = "Failed commits; the callers got 5003";
        each(&mut encoder, "store_failures", help, None, &stores, |store| counter(store.failures))?;
        let help = "Writes refused because the queue was full; the callers got 5003";
        each(&mut encoder, "store_busy", help, None, &stores, |store| counter(store.busy))?;
        let help = "1 while the store accepts writes; checked every two seconds";
        let up = |store: &StoreStats| Some(ConstGauge::new(i64::from(store.up)));
        each(&mut encoder, "store_up", help, None, &stores, up)?;
        let help = "Bytes waiting to be committed, or being committed";
        let bytes = Some(&Unit::Bytes);
        each(&mut encoder, "store_queue", help, bytes, &stores, |store| Some(gauge(store.queue_bytes)))?;
        let help = "SQLite: bytes of stored messages that are not yet indexed; up to 64 MiB";
        each(&mut encoder, "store_unindexed", help, bytes, &stores, |store| store.unindexed_bytes.map(gauge))
    }
}

fn commits(encoder: &mut DescriptorEncoder, stores: &StoreSnapshots) -> fmt::Result {
    let help = "Duration of a service's commits, including failed ones. A commit holds everything that was waiting, up to 256 rows";
    let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
    let mut metric = encoder.encode_descriptor("store_commit_duration", help, unit, kind)?;
    for (service, store) in stores {
        let count = store.commits.iter().map(|(_, count)| count).sum();
        let labels = ServiceLabels { service };
        let mut metric = metric.encode_family(&labels)?;
        metric.encode_histogram::<NoLabelSet>(store.seconds, count, &store.commits, None)?;
    }
    Ok(())
}

/// One metric of every store that has it.
fn each<M: EncodeMetric>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    stores: &StoreSnapshots,
    number: impl Fn(&StoreStats) -> Option<M>,
) -> fmt::Result {
    let numbers: Vec<_> = stores
        .iter()
        .filter_map(|(service, store)| Some((ServiceLabels { service }, number(store)?)))
        .collect();
    let Some((_, first)) = numbers.first() else { return Ok(()) };
    let mut metric = encoder.encode_descriptor(name, help, unit, first.metric_type())?;
    for (labels, number) in &numbers {
        number.encode(metric.encode_family(labels)?)?;
    }
    Ok(())
}
