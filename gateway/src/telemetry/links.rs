//! Links to other processes of the mesh.

use super::counted;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LinkLabels {
    namespace: &'static str,
    address: String,
}

/// One mesh link.
#[derive(Clone)]
pub struct LinkMetrics {
    pub up: Gauge,
    pub calls: Counter,
    pub pending: Gauge,
    pub redials: Counter,
}

pub(super) struct MeshLinkMetrics {
    up: Family<LinkLabels, Gauge>,
    calls: Family<LinkLabels, Counter>,
    pending: Family<LinkLabels, Gauge>,
    redials: Family<LinkLabels, Counter>,
}

impl MeshLinkMetrics {
    pub fn register(registry: &mut Registry) -> MeshLinkMetrics {
        MeshLinkMetrics {
            up: counted(registry, "mesh_link_up", "Links to other processes: 1 is up"),
            calls: counted(registry, "mesh_calls", "Calls sent over a link"),
            pending: counted(
                registry,
                "mesh_pending",
                "Calls in flight on a link, including those queued for it",
            ),
            redials: counted(registry, "mesh_redials", "Reconnects of a link"),
        }
    }

    pub fn link(&self, namespace: &'static str, address: &str) -> LinkMetrics {
        let labels = LinkLabels { namespace, address: address.to_owned() };
        LinkMetrics {
            up: self.up.get_or_create_owned(&labels),
            calls: self.calls.get_or_create_owned(&labels),
            pending: self.pending.get_or_create_owned(&labels),
            redials: self.redials.get_or_create_owned(&labels),
        }
    }
}
