//! Every setting, typed, with its default and its reason. One `aund.toml`; unknown keys are refused.

use crate::federation::resolve;
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use services::kernel::{RedisSettings, StoreUrl};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Clients come back after a second or two: this spreads them without keeping the operator waiting.
const DRAIN_WINDOW_MS: u64 = 5_000;

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

/// How this process speaks with the other processes of the same server. `aund certs mesh` makes the three files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mesh {
    /// Where other processes reach the rooms of this one.
    pub listen: Option<SocketAddr>,
    /// The certificate and the key of this process; read anew for every link, so that they can be replaced any time.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Whose certificates are believed.
    pub authority: Option<PathBuf>,
}

/// How the operator's tools see this process: `/health` and `/metrics` over plain HTTP. For machines of your own only.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Status {
    pub listen: Option<SocketAddr>,
}

/// How this domain deals with others.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Federation {
    /// Whether agents here reach those of other domains, and the other way round.
    pub enabled: bool,
    /// The namespaces that may cross.
    pub namespaces: Vec<String>,
    /// The domains we deal with, if not with every one whose root is trusted; and those we never do.
    pub allow: Vec<String>,
    pub block: Vec<String>,
    /// `DOMAIN = "HOST:PORT"`: every name under the domain is reached at this address, whatever the resolver says.
    pub resolve: BTreeMap<String, String>,
    /// Whether TLS certificates of the public authorities are believed, beside those of the trusted AUN roots.
    pub public_roots: bool,
    /// How long a message waits for a domain that cannot be reached, in seconds. 0: its sender is told at once.
    pub keep_seconds: u64,
    /// Relays a second that are taken from one domain, and from one agent of it.
    pub relays_per_second: u32,
    pub relays_per_agent: u32,
    /// Other domains this gateway may have links to, and links from one domain.
    pub peers: usize,
    pub links_per_peer: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
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

/// `HOST:PORT` of an address on the mesh.
pub fn mesh_address(url: &str) -> anyhow::Result<&str> {
    let address = url.strip_prefix("wss://").map(|rest| rest.trim_end_matches('/'));
    address
        .filter(|address| address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()))
        .with_context(|| format!("{url:?} is not an address on the mesh: write wss://HOST:PORT"))
}

/// Everything that can run in a process of its own.
pub fn parts() -> impl Iterator<Item = &'static str> {
    services::NAMESPACES.iter().copied().chain(["gateway"])
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// `sqlite:FOLDER` (empty: the data folder) or `postgres://…`, a schema per room.
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

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Sockets of any kind, all together and from one address.
    pub sockets: usize,
    pub sockets_per_address: usize,
    /// Sockets that have not finished their TLS and HTTP handshake, and how long they may take.
    pub handshakes: usize,
    pub handshake_timeout_ms: u64,
    /// How long a WebSocket may stay without a successful `auth.connect`.
    pub auth_timeout_ms: u64,
    /// New sockets from one address.
    pub connects_per_second: u32,
    /// HTTP requests from one address.
    pub http_per_second: u32,
    /// `auth.create_aid` from one address.
    pub registrations_per_minute: u32,
    /// Login calls for one AID from one address.
    pub logins_per_minute: u32,
    /// Calls on one socket before login.
    pub preauth_calls: u32,
    /// Calls of one AID, over all its connections.
    pub calls_per_second: u32,
    /// The largest frame taken.
    pub frame_bytes: usize,
    /// What may wait to be written to one connection, and to all of them.
    pub outbox_bytes: usize,
    pub outbox_total_bytes: usize,
    /// Calls of one connection that may be under way; past that it is not read.
    pub in_flight: u32,
    /// How long a call may take. Clients give up after 35 seconds.
    pub call_timeout_ms: u64,
    /// A connection that said nothing for so long is pinged, and closed if it does not answer.
    pub ping_interval_ms: u64,
    pub ping_timeout_ms: u64,
    /// How long a write may be stuck before the reader counts as gone.
    pub write_timeout_ms: u64,
    /// How long a stopping server waits for what is in flight.
    pub drain_timeout_ms: u64,
    /// Over how long it sends its clients away, so that the other gateways do not get all of them at once. Without it: 5
    /// seconds if events travel over Redis, at once if not.
    pub drain_window_ms: Option<u64>,
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

impl Default for Federation {
    fn default() -> Federation {
        Federation {
            enabled: true,
            namespaces: vec!["message".to_owned()],
            allow: Vec::new(),
            block: Vec::new(),
            resolve: BTreeMap::new(),
            public_roots: true,
            keep_seconds: 0,
            relays_per_second: 50_000,
            relays_per_agent: 1_000,
            peers: 500,
            links_per_peer: 8,
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

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sockets: 60_000,
            sockets_per_address: 20_000,
            handshakes: 16_384,
            handshake_timeout_ms: 10_000,
            auth_timeout_ms: 30_000,
            connects_per_second: 2_000,
            http_per_second: 500,
            registrations_per_minute: 600,
            logins_per_minute: 120,
            preauth_calls: 20,
            calls_per_second: 1_000,
            frame_bytes: (1 << 20) + (256 << 10),
            outbox_bytes: 4 << 20,
            outbox_total_bytes: 256 << 20,
            in_flight: 64,
            call_timeout_ms: 30_000,
            ping_interval_ms: 30_000,
            ping_timeout_ms: 20_000,
            write_timeout_ms: 20_000,
            drain_timeout_ms: 10_000,
            drain_window_ms: None,
        }
    }
}

/// One address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Listen {
    pub address: SocketAddr,
    pub tls: bool,
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        let (address, tls) = match text.strip_prefix("plain:") {
            Some(address) => (address, false),
            None => (text, true),
        };
        let address = address.parse().map_err(|_| {
            format!(
                "{text:?} is not an address to listen on: write 127.0.0.1:20001, or plain:127.0.0.1:20002"
            )
        })?;
        Ok(Listen { address, tls })
    }
}

impl TryFrom<String> for Listen {
    type Error = String;
    fn try_from(text: String) -> Result<Listen, String> {
        text.parse()
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> String {
        listen.to_string()
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.tls { "" } else { "plain:" }, self.address)
    }
}

impl Config {
    /// Reads a file; without one the defaults hold.
    pub fn load(file: Option<&Path>) -> anyhow::Result<Config> {
        let Some(file) = file else { return Ok(Config::default()) };
        let text =
            std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
        Config::parse(&text).with_context(|| format!("{} is not understood", file.display()))
    }

    pub fn parse(text: &str) -> anyhow::Result<Config> {
        toml::from_str(text).map_err(|error| match nearest(error.message()) {
            Some(hint) => anyhow::anyhow!("{}; did you mean {hint}?", first_line(&error)),
            None => anyhow::anyhow!("{}", first_line(&error)),
        })
    }

    /// What a type cannot know of itself. Said before a port is bound.
    pub fn check(&self) -> anyhow::Result<()> {
        services::kernel::Aid::parse(&format!("name.{}", self.issuer))
            .with_context(|| format!("issuer: {:?} cannot be the domain of an AID", self.issuer))?;
        self.store_url().context("store.url")?;
        if let Some(redis) = self.redis() {
            redis.check().context("bus.url")?;
        }
        if self.tls.cert.is_some() != self.tls.key.is_some() {
            bail!("tls: cert and key belong together, and only one of them is set");
        }
        let known: Vec<&str> = parts().collect();
        let named = self.only.iter().map(|name| ("only", name));
        let moved = self.services.keys().map(|name| ("services", name));
        if let Some((setting, name)) = named.chain(moved).find(|(_, name)| !known.contains(&name.as_str())) {
            bail!("{setting}: there is no part called {name}; the parts are {}", known.join(", "));
        }
        self.check_shape()?;
        resolve::check_all(&self.federation.resolve)?;
        if self.runs("gateway") && self.listen.is_empty() {
            bail!("listen: no address is given");
        }
        let limits = &self.limits;
        if limits.outbox_bytes < limits.frame_bytes {
            bail!("limits.outbox_bytes: one frame of {} bytes would not fit", limits.frame_bytes);
        }
        if self.drain_window_ms() > limits.drain_timeout_ms {
            bail!("limits.drain_window_ms: a drain is over after {} ms", limits.drain_timeout_ms);
        }
        let rates = [
            ("connects_per_second", limits.connects_per_second),
            ("http_per_second", limits.http_per_second),
            ("registrations_per_minute", limits.registrations_per_minute),
            ("logins_per_minute", limits.logins_per_minute),
            ("calls_per_second", limits.calls_per_second),
            ("in_flight", limits.in_flight),
        ];
        if let Some((name, _)) = rates.into_iter().find(|(_, rate)| *rate == 0) {
            bail!("limits.{name}: zero would let nobody in");
        }
        Ok(())
    }

    /// What only matters where one server is several processes.
    fn check_shape(&self) -> anyhow::Result<()> {
        for (name, service) in &self.services {
            if self.only.contains(name) {
                bail!("services.{name}.remote: {name} is to run here, too; leave out one of the two");
            }
            if service.remote.as_slice().is_empty() {
                bail!("services.{name}.remote: no address is given");
            }
            for url in service.remote.as_slice() {
                mesh_address(url).with_context(|| format!("services.{name}.remote"))?;
            }
        }
        if !self.runs("gateway") && self.mesh.listen.is_none() {
            bail!("mesh.listen: a process without the gateway has nobody to talk to without it");
        }
        if self.is_split() && self.redis().is_none() {
            bail!(
                "bus.url: parts in several processes hear of each other over Redis, so redis://… is needed"
            );
        }
        let files = [("cert", &self.mesh.cert), ("key", &self.mesh.key), ("authority", &self.mesh.authority)];
        if let Some((name, _)) = files.into_iter().find(|(_, file)| self.is_split() && file.is_none()) {
            bail!("mesh.{name} is not set; aund certs mesh makes what is missing");
        }
        Ok(())
    }

    /// Whether other processes belong to this server.
    pub fn is_split(&self) -> bool {
        self.mesh.listen.is_some() || !self.services.is_empty()
    }

    pub fn store_url(&self) -> anyhow::Result<StoreUrl> {
        self.store.url.parse()
    }

    /// `None` if events stay inside this process.
    pub fn redis(&self) -> Option<RedisSettings> {
        let wide = self.bus.url != "local:";
        wide.then(|| RedisSettings::new(&self.bus.url, &self.issuer, self.runs("gateway")))
    }

    /// Over how long clients are sent away when the server stops: at once if there is no other gateway to go to.
    pub fn drain_window_ms(&self) -> u64 {
        let wide = if self.redis().is_some() { DRAIN_WINDOW_MS } else { 0 };
        self.limits.drain_window_ms.unwrap_or(wide.min(self.limits.drain_timeout_ms / 2))
    }

    pub fn runs(&self, part: &str) -> bool {
        let wanted = self.only.is_empty() || self.only.iter().any(|name| name == part);
        wanted && !self.services.contains_key(part)
    }

    /// The settings as TOML for people: a password in a URL is not shown.
    pub fn shown(&self) -> anyhow::Result<String> {
        let mut shown = self.clone();
        if self.store.url.contains('@') {
            shown.store.url = self.store_url()?.shown();
        }
        if let Some(redis) = self.redis() {
            shown.bus.url = redis.shown();
        }
        Ok(toml::to_string_pretty(&shown)?)
    }
}

fn first_line(error: &toml::de::Error) -> String {
    let line = error.to_string();
    let message = error.message().lines().next().unwrap_or_default();
    // The parser's own text begins with the place: "TOML parse error at line 3, column 1".
    match line.lines().next().and_then(|first| first.split_once(" at ")) {
        Some((_, place)) => format!("{place}: {message}"),
        None => message.to_owned(),
    }
}

/// From "unknown field `isuer`, expected one of `issuer`, `listen`": the expected name most like the one written.
fn nearest(message: &str) -> Option<&str> {
    let mut names = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let written = names.next()?;
    names
        .map(|name| (strsim::damerau_levenshtein(written, name), name))
        .filter(|(distance, name)| *distance <= name.len().max(written.len()) / 2)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_a_whole_configuration() {
        let config = Config::default();
        config.check().unwrap();
        let again = Config::parse(&config.shown().unwrap()).unwrap();
        assert_eq!(again.listen, config.listen);
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        let error = Config::parse("isuer = 'x'").unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("did you mean issuer?"), "{error}");
        let error = Config::parse("[limits]\nsokets = 1").unwrap_err().to_string();
        assert!(error.contains("did you mean sockets?"), "{error}");
    }

    #[test]
    fn contradictions_are_said_before_a_port_is_bound() {
        let says =
            |text: &str| Config::parse(text).and_then(|config| config.check()).unwrap_err().to_string();
        assert!(says("issuer = 'UPPER..case'").contains("issuer"));
        assert!(says("store.url = 'mysql://x'").contains("store.url"));
        assert!(says("bus.url = 'nats://x'").contains("bus.url"));
        assert!(says("[limits]\ndrain_window_ms = 20000").contains("drain_window_ms"));
        assert!(says("tls.cert = 'x'").contains("tls"));
        assert!(says("only = ['door']").contains("door"));
        assert!(says("only = ['ca']").contains("mesh.listen"));
        assert!(says("services.door.remote = 'wss://x:1'").contains("door"));
        assert!(says("services.ca.remote = 'https://x:1'").contains("services.ca.remote"));
        assert!(says("services.ca.remote = []").contains("services.ca.remote"));
        assert!(says("services.ca.remote = 'wss://x:1'").contains("bus.url"));
        let wide = "bus.url = 'redis://x'\nservices.ca.remote = 'wss://x:1'";
        assert!(says(wide).contains("mesh.cert"));
        assert!(says("only = ['ca', 'gateway']\nservices.ca.remote = 'wss://x:1'").contains("run here"));
        assert!(says("listen = ['nowhere']").contains("nowhere"));
        assert!(says("federation.resolve = { 'x.example' = 'nowhere' }").contains("federation.resolve"));
        assert!(says("limits.calls_per_second = 0").contains("calls_per_second"));
    }

    #[test]
    fn a_password_is_not_shown() {
        let config = Config::parse("store.url = 'postgres://me:secret@db/aund'").unwrap();
        assert!(!config.shown().unwrap().contains("secret"));
        let config = Config::parse("bus.url = 'redis://me:secret@host:6379'").unwrap();
        config.check().unwrap();
        assert!(!config.shown().unwrap().contains("secret"));
    }
}
