//! What a service counts: registered under the name of its namespace, and printed with the metrics of the process.

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::registry::{Metric, Registry, Unit};
use std::fmt;
use std::sync::Arc;

/// The metrics of the services in this process.
#[derive(Clone)]
pub struct ServiceMetrics(Arc<Mutex<Registry>>);

impl Default for ServiceMetrics {
    fn default() -> ServiceMetrics {
        ServiceMetrics(Arc::new(Mutex::new(Registry::with_prefix("aund"))))
    }
}

impl ServiceMetrics {
    /// Registers a metric: `counted("task", "storms", …)` is `aund_task_storms`.
    pub fn counted<M: Metric + Clone + Default>(&self, namespace: &str, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0.lock().sub_registry_with_prefix(namespace).register(name, help, metric.clone());
        metric
    }

    /// The same with a unit, which becomes the last word of its name.
    pub fn measured<M: Metric + Clone + Default>(
        &self,
        namespace: &str,
        name: &str,
        help: &str,
        unit: Unit,
    ) -> M {
        let metric = M::default();
        let mut registry = self.0.lock();
        registry.sub_registry_with_prefix(namespace).register_with_unit(name, help, unit, metric.clone());
        metric
    }

    /// Adds all of them to a text in the format that tools scrape.
    pub fn encode(&self, text: &mut String) -> fmt::Result {
        encode_registry(text, &self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;

    #[test]
    fn a_metric_has_the_name_of_its_namespace() {
        let metrics = ServiceMetrics::default();
        let storms: Counter = metrics.counted("task", "storms", "Trees that grew too fast");
        storms.inc();
        let mut text = String::new();
        metrics.encode(&mut text).unwrap();
        assert!(text.contains("\naund_task_storms_total 1\n"), "{text}");
    }
}
