//! Federation with other domains.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FederationConfig {
    /// Whether agents of this domain and other domains can reach each other.
    pub enabled: bool,
    /// The namespaces that may cross domains. Default: all that can.
    pub namespaces: Vec<String>,
    /// The domains that may federate with this one (empty: all with a trusted root), and those that never may: by name, or by the
    /// SHA-256 of a key or certificate in their chain (`sha256:` and 64 digits).
    pub allow: Vec<String>,
    pub block: Vec<String>,
    /// `DOMAIN = "HOST:PORT"`: connect to this address for every name under the domain, instead of asking DNS.
    pub resolve: BTreeMap<String, String>,
    /// Whether a name of another domain may resolve to an address that is not public. Addresses in `resolve` always may.
    pub allow_private: bool,
    /// Whether to accept TLS certificates of public authorities, in addition to those of the trusted AUN roots.
    pub public_roots: bool,
    /// Relays per second that are accepted from one domain, and from one of its agents or services.
    pub relays_per_second: u32,
    pub relays_per_agent: u32,
    /// The maximum number of domains that this gateway has links to, and of links from one domain.
    pub peers: usize,
    pub links_per_peer: usize,
    /// Never-reached domains that the gateway dials concurrently for one agent or one service.
    pub new_domains_per_agent: usize,
    /// How often the gateway asks a linked domain whether its gateway's certificate is revoked.
    pub revocation_check_seconds: u64,
}

impl FederationConfig {
    /// The namespaces with a method or an event that crosses domains, as the schemas say.
    pub(super) fn crossing() -> impl Iterator<Item = &'static str> {
        proto_schemas::federated_namespaces().map(|namespace| namespace.name)
    }
}

impl Default for FederationConfig {
    fn default() -> FederationConfig {
        FederationConfig {
            enabled: true,
            namespaces: FederationConfig::crossing().map(ToOwned::to_owned).collect(),
            allow: Vec::new(),
            block: Vec::new(),
            resolve: BTreeMap::new(),
            allow_private: false,
            public_roots: true,
            relays_per_second: 50_000,
            relays_per_agent: 1_000,
            peers: 500,
            links_per_peer: 8,
            new_domains_per_agent: 32,
            revocation_check_seconds: 600,
        }
    }
}
