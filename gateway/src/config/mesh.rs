//! One server in several processes: which service runs where, and how the processes reach each other.

use super::Config;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// How this process reaches the other processes of the same server. `aund certs mesh` makes the three files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MeshConfig {
    /// The address where other processes reach the services of this process.
    pub listen: Option<SocketAddr>,
    /// The certificate and key of this process. They are read for every new link, so they can be replaced at any time.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// The authority whose certificates are accepted.
    pub authority: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceConfig {
    /// `wss://HOST:PORT` of each process that runs the namespace.
    pub remote: Addresses,
}

/// One address, or a list of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Addresses {
    One(String),
    Many(Vec<String>),
}

impl Addresses {
    pub fn as_slice(&self) -> &[String] {
        match self {
            Addresses::One(address) => std::slice::from_ref(address),
            Addresses::Many(addresses) => addresses,
        }
    }
}

impl Config {
    /// Whether the service runs in this process.
    pub fn runs(&self, service: &str) -> bool {
        let wanted = self.only.is_empty() || self.only.iter().any(|name| name == service);
        wanted && !self.services.contains_key(service)
    }

    /// Every service, the gateway among them: each can run in a process of its own. A service may call those before it while it
    /// opens.
    pub fn service_names(&self) -> impl Iterator<Item = &'static str> {
        self.available.iter().map(|service| service.name).chain(["gateway"])
    }

    /// Whether other processes belong to this server.
    pub fn is_split(&self) -> bool {
        self.mesh.listen.is_some() || !self.services.is_empty()
    }
}

/// `HOST:PORT` of an address on the mesh.
pub fn mesh_address(url: &str) -> anyhow::Result<&str> {
    let address = url.strip_prefix("wss://").map(|rest| rest.trim_end_matches('/'));
    address
        .filter(|address| address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()))
        .with_context(|| format!("{url:?} is not an address on the mesh: write wss://HOST:PORT"))
}
