//! Calls to other domains. Totals only: a label per domain would let other domains make the table grow.

use super::counted;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// How calls to other domains ended.
pub struct RelayMetrics {
    pub answered: Counter,
    pub refused: Counter,
    pub timeout: Counter,
    pub unreachable: Counter,
}

impl RelayMetrics {
    pub(super) fn register(registry: &mut Registry) -> RelayMetrics {
        let help = "Finished calls to other domains, by outcome: answered, refused, timeout or unreachable";
        let relays: Family<OutcomeLabels, Counter> = counted(registry, "federation_relays", help);
        let of = |outcome| relays.get_or_create_owned(&OutcomeLabels { outcome });
        RelayMetrics {
            answered: of("answered"),
            refused: of("refused"),
            timeout: of("timeout"),
            unreachable: of("unreachable"),
        }
    }
}
