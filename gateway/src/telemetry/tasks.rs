//! The background tasks of the services in this process. They are counted by themselves; a scrape reads it.

use kernel::Tasks;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;

pub(super) struct TaskMetrics(pub Tasks);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabels {
    service: &'static str,
    task: &'static str,
}

impl fmt::Debug for TaskMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskMetrics")
    }
}

impl Collector for TaskMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let tasks = self.0.statuses();
        let help = "1 while a service's background task runs; 0 while it waits for a restart after a panic";
        let mut metric = encoder.encode_descriptor("task_running", help, None, MetricType::Gauge)?;
        for ((service, task), status) in &tasks {
            let running = ConstGauge::new(i64::from(status.running));
            running.encode(metric.encode_family(&TaskLabels { service, task })?)?;
        }
        let help = "Restarts of a background task after a panic";
        let mut metric = encoder.encode_descriptor("task_restarts", help, None, MetricType::Counter)?;
        for ((service, task), status) in &tasks {
            let restarts = ConstCounter::new(status.restarts);
            restarts.encode(metric.encode_family(&TaskLabels { service, task })?)?;
        }
        Ok(())
    }
}
