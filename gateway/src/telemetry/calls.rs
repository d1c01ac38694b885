//! Calls by method and error code, and how long they took.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    method: &'static str,
    code: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabels {
    method: &'static str,
}

/// The counters of one method, looked up once and kept.
#[derive(Clone)]
pub struct MethodMetrics {
    pub name: &'static str,
    /// Its position in the list, which is that of its schema: whoever has found the method needs no second look-up.
    position: usize,
    pub(super) ok: Counter,
    seconds: Histogram,
}

pub(super) struct CallMetrics {
    by_code: Family<CallLabels, Counter>,
    /// Names that no schema has share the last one.
    methods: Vec<MethodMetrics>,
    positions: HashMap<&'static str, usize>,
}

impl CallMetrics {
    pub fn register(registry: &mut Registry) -> CallMetrics {
        let by_code = Family::<CallLabels, Counter>::default();
        let help = "Answered calls, by error code; 0: success. Calls over the mesh are counted by the gateway and by the service";
        registry.register("requests", help, by_code.clone());
        let seconds = Family::<MethodLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(exponential_buckets(0.000_01, 4.0, 11))
        });
        let help = "Duration of calls; in a service's process, the time of the service alone";
        registry.register_with_unit("request_duration", help, Unit::Seconds, seconds.clone());
        let of = |(position, name): (usize, &'static str)| MethodMetrics {
            name,
            position,
            ok: by_code.get_or_create_owned(&CallLabels { method: name, code: 0 }),
            seconds: seconds.get_or_create_owned(&MethodLabels { method: name }),
        };
        let names = proto_schemas::methods().iter().map(|method| method.name).chain(["unknown"]);
        let methods: Vec<_> = names.enumerate().map(of).collect();
        let positions = methods.iter().map(|method| (method.name, method.position)).collect();
        CallMetrics { by_code, methods, positions }
    }

    /// Names that no schema has share one row: an unauthenticated caller must not make the table grow.
    pub fn method(&self, name: &str) -> &MethodMetrics {
        self.method_at(self.positions.get(name).copied().unwrap_or(self.methods.len() - 1))
    }

    pub fn method_at(&self, position: usize) -> &MethodMetrics {
        &self.methods[position]
    }

    pub fn answered(&self, method: &MethodMetrics, code: i32, seconds: f64) {
        match code {
            0 => method.ok.inc(),
            code => self.by_code.get_or_create(&CallLabels { method: method.name, code }).inc(),
        };
        method.seconds.observe(seconds);
    }
}
