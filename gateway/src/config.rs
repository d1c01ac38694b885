//! Every setting, typed, with its default and its reason. One `aund.toml`; unknown keys are refused.

mod check;
mod federation;
mod file;
mod limits;
mod listen;
mod mesh;

pub use federation::Federation;
pub use limits::Limits;
pub use listen::Listen;
pub use mesh::{Addresses, Mesh, Service, mesh_address, parts};

use serde::{Deserialize, Serialize};
use services::kernel::{RedisSettings, StoreUrl};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The domain this server vouches for. Every AID it registers lives under it.
    pub issuer: String,
    /// Where to listen. `ADDR:PORT` speaks TLS; `plain:ADDR:PORT` does not, for use behind a proxy that does.
    pub listen: Vec<Listen>,
    /// Let several gateways of one machine listen on the same address: the system spreads connections over them.
    pub share_port: bool,
    /// The folder with keys, certificates and SQLite files.
    pub data: PathBuf,
    /// The folder whose `pki` has the keys of this process; the data folder by default. Processes that run the same part
    /// share it.
    pub keys: Option<PathBuf>,
    /// The gateway URL told to clients. They keep it for ever, so it must not change; by default it is made of the
    /// issuer and the first TLS port.
    pub public_url: Option<String>,
    pub store: Store,
    pub bus: Bus,
    pub tls: Tls,
    pub log: Log,
    pub limits: Limits,
    /// Which parts run in this process; empty means all of them.
    pub only: Vec<String>,
    pub mesh: Mesh,
    pub status: Status,
    pub federation: Federation,
    /// Namespaces that live in other processes. What is not named here, and runs here, is a function call away.
    pub services: BTreeMap<String, Service>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// `sqlite:FOLDER` (empty: the data folder) or `postgres://…`, a schema per service.
    pub url: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bus {
    /// `local:` carries events inside this process; `redis://…` (over TLS `rediss://…`) also between processes, so that
    /// several gateways serve one domain.
    pub url: String,
}

/// A certificate of your own for the listener; without it the server's authority makes one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// A filter such as `info` or `gateway=debug,info`.
    pub level: String,
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

/// How the operator's tools see this process: `/health` and `/metrics` over plain HTTP. For machines of your own only.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Status {
    pub listen: Option<SocketAddr>,
}

impl Config {
    pub fn store_url(&self) -> anyhow::Result<StoreUrl> {
        self.store.url.parse()
    }

    /// `None` if events stay inside this process.
    pub fn redis(&self) -> Option<RedisSettings> {
        let wide = self.bus.url != "local:";
        wide.then(|| RedisSettings::new(&self.bus.url, &self.issuer, self.runs("gateway")))
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            issuer: "agents.localhost".to_owned(),
            listen: vec![Listen { address: ([127, 0, 0, 1], 20001).into(), tls: true }],
            share_port: false,
            data: "./data".into(),
            keys: None,
            public_url: None,
            store: Store::default(),
            bus: Bus::default(),
            tls: Tls::default(),
            log: Log::default(),
            limits: Limits::default(),
            only: Vec::new(),
            mesh: Mesh::default(),
            status: Status::default(),
            federation: Federation::default(),
            services: BTreeMap::new(),
        }
    }
}

impl Default for Store {
    fn default() -> Store {
        Store { url: "sqlite:".to_owned() }
    }
}

impl Default for Bus {
    fn default() -> Bus {
        Bus { url: "local:".to_owned() }
    }
}

impl Default for Log {
    fn default() -> Log {
        Log { level: "info".to_owned(), format: LogFormat::Text }
    }
}
