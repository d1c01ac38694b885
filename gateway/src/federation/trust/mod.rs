//! Which other domains and gateways are trusted: the roots of our signed list, and the domains the operator allows or
//! blocks.

mod gateway_identity;
pub mod tls;

pub use gateway_identity::{GatewayIdentity, PeerGateway, check_gateway};

use crate::config;
use certs::Certificate;
use parking_lot::RwLock;
use proto_schemas::requests::ca;
use services::kernel::{Caller, Mesh, RpcError};
use std::sync::Arc;

pub struct PeerTrust {
    mesh: Arc<Mesh>,
    allow: Vec<String>,
    block: Vec<String>,
    roots: RwLock<Arc<[Certificate]>>,
}

impl PeerTrust {
    pub fn new(mesh: Arc<Mesh>, config: &config::FederationConfig) -> PeerTrust {
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect();
        PeerTrust {
            mesh,
            allow: lower(&config.allow),
            block: lower(&config.block),
            roots: RwLock::new(Arc::new([])),
        }
    }

    pub fn roots(&self) -> Arc<[Certificate]> {
        self.roots.read().clone()
    }

    /// Whether the operator allows federation with this domain.
    pub fn allows(&self, issuer: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == issuer);
        !named(&self.block) && (self.allow.is_empty() || named(&self.allow))
    }

    /// Reads the list again. The operator may have added or removed a root.
    pub async fn refresh(&self) -> Result<(), RpcError> {
        let list = self.mesh.ask(Caller::service("gateway"), &ca::GetTrustRoots {}).await?;
        let active = list.root_cas.iter().filter(|entry| entry.status == "active");
        self.set(active.filter_map(|entry| Certificate::from_pem(&entry.certificate).ok()).collect());
        Ok(())
    }

    pub(in crate::federation) fn set(&self, roots: Vec<Certificate>) {
        *self.roots.write() = roots.into();
    }
}
