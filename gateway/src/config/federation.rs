//! Federation with other domains.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FederationConfig {
    /// Whether agents here reach those of other domains, and the other way round.
    pub enabled: bool,
    /// The namespaces that may cross: all that have something that can, unless there are fewer here.
    pub namespaces: Vec<String>,
    /// The domains that may federate with this one (empty: every one that a root is trusted for), and those that never may: by
    /// name, or by the SHA-256 of a key or certificate above them (`sha256:` and 64 digits), whatever their name.
    pub allow: Vec<String>,
    pub block: Vec<String>,
    /// `DOMAIN = "HOST:PORT"`: every name under the domain is reached at this address, whatever the resolver says.
    pub resolve: BTreeMap<String, String>,
    /// Whether a name of another domain may lead to an address that is not public. Addresses in `resolve` may always.
    pub allow_private: bool,
    /// Whether TLS certificates of the public authorities are believed, beside those of the trusted AUN roots.
    pub public_roots: bool,
    /// Relays a second that are accepted from one domain, and from one agent or service of it.
    pub relays_per_second: u32,
    pub relays_per_agent: u32,
    /// Other domains this gateway may have links to, and links from one domain.
    pub peers: usize,
    pub links_per_peer: usize,
    /// Domains that were never reached and that one agent, or one service in its own name, may have dialled at the same time.
    pub new_domains_per_agent: usize,
    /// How often a domain is asked whether the certificate of a gateway that it has a link with is revoked.
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
