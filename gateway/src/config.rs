//! Every setting, typed, with its default and its reason. One `aund.toml`; unknown keys are refused.

mod check;
mod federation;
mod file;
mod limits;
mod listen;
mod mesh;
mod resolve;
mod sentence;

pub use federation::FederationConfig;
pub use limits::LimitsConfig;
pub use listen::ListenAddress;
pub use mesh::{Addresses, MeshConfig, ServiceConfig, mesh_address};
pub use resolve::{ResolveEntry, host_and_port};

use kernel::{AccountSettings, ConfiguredService, Network, RedisSettings, StoreLimits, StoreUrl};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The domain of this server. Every AID it registers is under it.
    pub issuer: String,
    /// The addresses to listen on. `ADDR:PORT` uses TLS; `plain:ADDR:PORT` does not, for use behind a proxy that does.
    pub listen: Vec<ListenAddress>,
    /// Let several gateways of one machine listen on the same address: the system spreads connections over them.
    pub share_port: bool,
    /// Balancers before this server, as addresses and networks: `["10.0.0.7", "10.1.0.0/24"]`. Each of their connections must
    /// begin with a PROXY header, version 1 or 2, with the address of the client. Connections from other addresses must not have
    /// one.
    pub proxies: Vec<Network>,
    /// The folder with keys, certificates and SQLite files.
    pub data: PathBuf,
    /// The folder whose `pki` has the keys of this process; the data folder by default. Processes that run the same
    /// service share it.
    pub keys: Option<PathBuf>,
    /// The gateway URL for clients. Clients store it permanently, so it must not change. Default: made of the issuer and the
    /// first TLS port.
    pub public_url: Option<String>,
    pub store: StoreConfig,
    pub bus: BusConfig,
    pub tls: TlsConfig,
    pub log: LogConfig,
    pub limits: LimitsConfig,
    /// What is stored per agent, network and domain in all namespaces together: see `aund accounts`.
    pub accounts: AccountSettings,
    /// The services that run in this process, including `gateway`. Empty: all of them.
    pub only: Vec<String>,
    pub mesh: MeshConfig,
    pub status: StatusConfig,
    pub federation: FederationConfig,
    /// The services that run in other processes, and where.
    pub services: BTreeMap<String, ServiceConfig>,
    /// The services of this build in the order in which they open, each with the settings of its own table of the file.
    #[serde(skip)]
    pub available: Vec<ConfiguredService>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// `sqlite:FOLDER` (empty: the data folder) or `postgres://…`, a schema per service.
    pub url: String,
    /// SQLite: while less than this is free on the disk, new messages, tasks, documents and registrations are refused with 5003.
    /// Default: 1 GiB, or 5 % of the disk if that is less; 0 refuses nothing.
    pub free_bytes: Option<u64>,
    /// PostgreSQL, whose free space is unknown: the same is refused while the server's schemas have this size. Default: no limit.
    pub bytes: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BusConfig {
    /// `local:` carries events inside this process; `redis://…` (over TLS `rediss://…`) also between processes, so that
    /// several gateways serve one domain.
    pub url: String,
}

/// What clients of the listeners are shown.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// Files with your own certificate and key for the listeners. Default: a certificate from the server's authority.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// A filter such as `info` or `gateway=debug,info`.
    pub level: String,
    /// `text` for people, `json` for programs.
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

/// How the operator's tools see this process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StatusConfig {
    /// The address for `/health` and `/metrics` over plain HTTP. Do not expose it publicly.
    pub listen: Option<SocketAddr>,
    /// The bearer token for `/metrics` on the public listeners. Default: the public listeners have no `/metrics`.
    pub token: Option<String>,
}

impl Config {
    pub fn store_url(&self) -> anyhow::Result<StoreUrl> {
        self.store.url.parse()
    }

    pub fn store_limits(&self) -> StoreLimits {
        StoreLimits { free_bytes: self.store.free_bytes, bytes: self.store.bytes }
    }

    /// Whether the connections from there are those of a balancer.
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|proxy| proxy.contains(address))
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
            listen: vec![ListenAddress { address: ([127, 0, 0, 1], 20001).into(), tls: true }],
            share_port: false,
            proxies: Vec::new(),
            data: "./data".into(),
            keys: None,
            public_url: None,
            store: StoreConfig::default(),
            bus: BusConfig::default(),
            tls: TlsConfig::default(),
            log: LogConfig::default(),
            limits: LimitsConfig::default(),
            accounts: AccountSettings::default(),
            only: Vec::new(),
            mesh: MeshConfig::default(),
            status: StatusConfig::default(),
            federation: FederationConfig::default(),
            services: BTreeMap::new(),
            available: Vec::new(),
        }
    }
}

impl Default for StoreConfig {
    fn default() -> StoreConfig {
        StoreConfig { url: "sqlite:".to_owned(), free_bytes: None, bytes: None }
    }
}

impl Default for BusConfig {
    fn default() -> BusConfig {
        BusConfig { url: "local:".to_owned() }
    }
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { level: "info".to_owned(), format: LogFormat::Text }
    }
}

/// Services as `aund` has them, for the tests of this crate: they have a setting, and cannot be opened.
#[cfg(test)]
pub(crate) fn test_services() -> Vec<kernel::ServiceRow> {
    use kernel::{Service, ServiceRow, ServiceSettings, World};

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct TestSettings {
        limit: u32,
    }

    impl Default for TestSettings {
        fn default() -> TestSettings {
            TestSettings { limit: 5 }
        }
    }

    impl ServiceSettings for TestSettings {
        fn check(&self) -> anyhow::Result<()> {
            anyhow::ensure!(self.limit < 10, "message.limit: must be below 10");
            Ok(())
        }
    }

    async fn open(_: &World, _: &TestSettings) -> anyhow::Result<Service> {
        anyhow::bail!("there is nothing behind its name")
    }

    ["ca", "auth", "message"].map(|name| ServiceRow::new(name, open)).into()
}
