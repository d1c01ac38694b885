//! Whom this domain believes: the roots of its signed list, and the operator's word on single domains.

use crate::config;
use certs::Certificate;
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::json;
use services::kernel::{Caller, Mesh, RpcError};
use std::sync::Arc;

pub struct Trust {
    mesh: Arc<Mesh>,
    allow: Vec<String>,
    block: Vec<String>,
    roots: RwLock<Arc<[Certificate]>>,
}

#[derive(Deserialize)]
struct List {
    root_cas: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    certificate: String,
    status: String,
}

impl Trust {
    pub fn new(mesh: Arc<Mesh>, config: &config::FederationConfig) -> Trust {
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Trust {
            mesh,
            allow: lower(&config.allow),
            block: lower(&config.block),
            roots: RwLock::new(Arc::new([])),
        }
    }

    pub fn roots(&self) -> Arc<[Certificate]> {
        self.roots.read().clone()
    }

    /// Whether the operator lets us deal with a domain at all.
    pub fn allows(&self, issuer: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == issuer);
        !named(&self.block) && (self.allow.is_empty() || named(&self.allow))
    }

    /// Reads the list again. The operator may have added a root, or taken one away.
    pub async fn refresh(&self) -> Result<(), RpcError> {
        let list: List = self.mesh.ask(Caller::service("gateway"), "ca.get_trust_roots", &json!({})).await?;
        let active = list.root_cas.iter().filter(|entry| entry.status == "active");
        self.set(active.filter_map(|entry| Certificate::from_pem(&entry.certificate).ok()).collect());
        Ok(())
    }

    pub(super) fn set(&self, roots: Vec<Certificate>) {
        *self.roots.write() = roots.into();
    }
}
