//! Calls by method and error code, and how long they took.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use proto_schemas::Method;
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

/// The counters of one method, found once and kept, so that a call costs no look-up.
#[derive(Clone)]
pub struct MethodMetrics {
    pub name: &'static str,
    /// Where it stands in the list: whoever comes back to it later needs no look-up either.
    pub place: usize,
    /// What the law says of it; nothing if it does not know it.
    pub schema: Option<&'static Method>,
    pub(super) ok: Counter,
    seconds: Histogram,
}

pub(super) struct Calls {
    by_code: Family<CallLabels, Counter>,
    /// Names that no schema knows share the last one.
    methods: Vec<MethodMetrics>,
    places: HashMap<&'static str, usize>,
}

impl Calls {
    pub fn register(registry: &mut Registry) -> Calls {
        let by_code = Family::<CallLabels, Counter>::default();
        let help = "Calls answered, by method and error code (0: no error)";
        registry.register("requests", help, by_code.clone());
        let seconds = Family::<MethodLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(exponential_buckets(0.000_01, 4.0, 11))
        });
        let help = "How long calls took";
        registry.register_with_unit("request_duration", help, Unit::Seconds, seconds.clone());
        let of = |(place, name): (usize, &'static str)| MethodMetrics {
            name,
            place,
            schema: proto_schemas::find(name),
            ok: by_code.get_or_create_owned(&CallLabels { method: name, code: 0 }),
            seconds: seconds.get_or_create_owned(&MethodLabels { method: name }),
        };
        let names = proto_schemas::methods().iter().map(|method| method.name).chain(["unknown"]);
        let methods: Vec<_> = names.enumerate().map(of).collect();
        let places = methods.iter().map(|method| (method.name, method.place)).collect();
        Calls { by_code, methods, places }
    }

    /// Names that no schema knows share one row: a stranger must not make the table grow.
    pub fn method(&self, name: &str) -> &MethodMetrics {
        self.method_at(self.places.get(name).copied().unwrap_or(self.methods.len() - 1))
    }

    pub fn method_at(&self, place: usize) -> &MethodMetrics {
        &self.methods[place]
    }

    pub fn answered(&self, method: &MethodMetrics, code: i32, seconds: f64) {
        match code {
            0 => method.ok.inc(),
            code => self.by_code.get_or_create(&CallLabels { method: method.name, code }).inc(),
        };
        method.seconds.observe(seconds);
    }
}
