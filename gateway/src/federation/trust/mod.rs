//! Which other domains and gateways are trusted: the roots of our signed list, each for its domains, the keys that the
//! authorities of those domains had when they were seen first, and the domains and keys that the operator allows or blocks.

mod blocked;
mod gateway_identity;
pub mod tls;

pub use gateway_identity::{GatewayIdentity, PeerGateway, check_gateway};

use crate::config;
use blocked::BlockList;
use certs::{Certificate, RootDomains};
use kernel::{Caller, Mesh, RpcError, codes};
use parking_lot::RwLock;
use proto_schemas::requests::ca;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A trusted root, and the domains it is trusted for.
#[derive(Clone, Debug)]
pub struct PeerRoot {
    pub certificate: Certificate,
    pub domains: RootDomains,
}

pub struct PeerTrust {
    mesh: Arc<Mesh>,
    allow: Vec<String>,
    block: BlockList,
    roots: RwLock<Arc<[PeerRoot]>>,
    keys: RwLock<IssuerKeys>,
}

/// The keys of other domains' authorities, by their fingerprints.
#[derive(Default)]
struct IssuerKeys {
    /// By domain: a copy of what `ca` keeps, which decides.
    pinned: HashMap<String, String>,
    /// Keys and certificates that are blocked under whatever name.
    blocked: Arc<HashSet<String>>,
}

impl PeerTrust {
    pub fn new(mesh: Arc<Mesh>, config: &config::FederationConfig) -> PeerTrust {
        let block = BlockList::new(&config.block);
        let keys = IssuerKeys { pinned: HashMap::new(), blocked: Arc::new(block.keys(&HashMap::new())) };
        PeerTrust {
            mesh,
            allow: config.allow.iter().map(|name| name.to_ascii_lowercase()).collect(),
            block,
            roots: RwLock::new(Arc::new([])),
            keys: RwLock::new(keys),
        }
    }

    /// All roots. What is trusted for one domain is in [`PeerTrust::roots_for`].
    pub fn roots(&self) -> Arc<[PeerRoot]> {
        self.roots.read().clone()
    }

    /// The roots that are trusted for this domain.
    pub fn roots_for(&self, issuer: &str) -> Vec<Certificate> {
        let roots = self.roots();
        let trusted = roots.iter().filter(|root| root.domains.covers(issuer));
        trusted.map(|root| root.certificate.clone()).collect()
    }

    /// Whether the operator allows federation with this domain.
    pub fn allows(&self, issuer: &str) -> bool {
        let allowed = self.allow.is_empty() || self.allow.iter().any(|name| name == issuer);
        allowed && !self.block.has_name(issuer)
    }

    /// The fingerprints of keys and certificates that are blocked, under whatever name they come.
    pub fn blocked_keys(&self) -> Arc<HashSet<String>> {
        self.keys.read().blocked.clone()
    }

    /// The key that the authority of this domain had when it was seen first.
    pub fn pinned(&self, issuer: &str) -> Option<String> {
        self.keys.read().pinned.get(issuer).cloned()
    }

    /// Keeps the key of the authority of a domain, the first time that one of its gateways is accepted. `ca` decides: another
    /// gateway of ours may have seen another key at the same moment.
    pub async fn pin(&self, peer: &PeerGateway) -> Result<(), RpcError> {
        let key = peer.authority.public_key().fingerprint();
        if self.pinned(&peer.issuer).as_deref() == Some(key.as_str()) {
            return Ok(());
        }
        let domain = peer.issuer.clone();
        let pin = ca::PinIssuer { domain, spki_fingerprint: key.clone(), root: peer.root.clone() };
        let counts = self.mesh.ask(Caller::service("gateway"), &pin).await?.spki_fingerprint;
        self.keys.write().pinned.insert(peer.issuer.clone(), counts.clone());
        if counts == key { Ok(()) } else { Err(other_key(&peer.issuer)) }
    }

    /// Reads the list again, and the keys. The operator may have added or removed a root, or accepted a new key.
    pub async fn refresh(&self) -> Result<(), RpcError> {
        let list = self.mesh.ask(Caller::service("gateway"), &ca::GetTrustRoots {}).await?;
        let pins = match self.mesh.ask(Caller::service("gateway"), &ca::GetIssuerPins {}).await {
            Ok(answer) => answer.pins,
            // A `ca` of an earlier version, while one process after the other is replaced.
            Err(error) if error.code() == codes::METHOD_NOT_FOUND.code => Vec::new(),
            Err(error) => return Err(error),
        };
        let active = list.root_cas.into_iter().filter(|entry| entry.status == "active");
        self.set(active.filter_map(read_root).collect());
        let pinned = pins.into_iter().map(|pin| (pin.domain, pin.spki_fingerprint)).collect();
        let blocked = Arc::new(self.block.keys(&pinned));
        *self.keys.write() = IssuerKeys { pinned, blocked };
        Ok(())
    }

    pub(in crate::federation) fn set(&self, roots: Vec<PeerRoot>) {
        *self.roots.write() = roots.into();
    }
}

/// The list of an earlier `ca` does not say what a root is trusted for; there it is every domain.
fn read_root(entry: ca::ListedRoot) -> Option<PeerRoot> {
    let domains = match &entry.domains {
        None => RootDomains::any(),
        Some(patterns) => RootDomains::parse(patterns).unwrap_or_else(|_| RootDomains::none()),
    };
    Some(PeerRoot { certificate: Certificate::from_pem(&entry.certificate).ok()?, domains })
}

/// The authority of a domain has another key than before.
fn other_key(issuer: &str) -> RpcError {
    let sentence = format!(
        "the authority of {issuer} has another key than before, which the operator of this domain has not accepted"
    );
    RpcError::new(codes::CERT_OR_NONCE_INVALID, sentence).with("reason", "issuer_key")
}
