//! The space that the stores of this process have left.

use kernel::Disk;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::fmt;

pub(super) struct DiskMetrics(pub Disk);

impl fmt::Debug for DiskMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiskMetrics")
    }
}

impl Collector for DiskMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        // A process whose stores nothing limits has no such metrics.
        let Some(reading) = self.0.reading() else { return Ok(()) };
        let bytes = |bytes: u64| ConstGauge::new(i64::try_from(bytes).unwrap_or(i64::MAX));
        let help = "SQLite: free bytes on the disk. PostgreSQL: bytes left until store.bytes";
        one(&mut encoder, "store_free", help, Some(&Unit::Bytes), &bytes(reading.free))?;
        let help = "Calls that store data are refused below this many free bytes";
        one(&mut encoder, "store_free_limit", help, Some(&Unit::Bytes), &bytes(reading.refused_below))?;
        let help = "Calls refused for lack of free space; the callers got 5003";
        one(&mut encoder, "store_no_space", help, None, &ConstCounter::new(self.0.refusals()))
    }
}

fn one(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    number: &impl EncodeMetric,
) -> fmt::Result {
    number.encode(encoder.encode_descriptor(name, help, unit, number.metric_type())?)
}
