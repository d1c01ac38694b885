//! Redis as the bus and presence use it: a connection that is made again when it breaks, and the names of keys and channels.

mod connection;
mod keys;
mod rate;

pub(super) use connection::{PING_EVERY, RedisBackoff, RedisConnection, command};

use super::Clock;
use anyhow::Context as _;
use connection::SharedConnection;
use keys::RedisKeys;
use redis::{Client, ProtocolVersion, RedisError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;

/// How a process uses Redis.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// `redis://…`, or `rediss://…` over TLS.
    pub url: String,
    /// Domains can share a Redis: their names keep them apart.
    pub issuer: String,
    /// Whether connections of agents end in this process.
    pub gateway: bool,
    /// Sharded publish/subscribe; `None` finds out whether the server has it.
    pub sharded: Option<bool>,
    /// What may wait to be published. What does not fit is dropped and counted.
    pub queue_bytes: usize,
}

impl RedisSettings {
    /// `?prefix=NAME` at the end of the URL replaces the issuer, where two servers of one domain share a Redis.
    pub fn new(url: &str, issuer: &str, gateway: bool) -> RedisSettings {
        let (url, prefix) = url.split_once("?prefix=").unwrap_or((url, issuer));
        RedisSettings {
            url: url.to_owned(),
            issuer: prefix.to_owned(),
            gateway,
            sharded: None,
            queue_bytes: 16 << 20,
        }
    }

    /// The URL without its password.
    pub fn shown(&self) -> String {
        without_password(&self.url)
    }

    /// Tells a URL that cannot be understood from a server that is only away.
    pub fn check(&self) -> anyhow::Result<()> {
        self.client().map(drop)
    }

    /// RESP3, because on it one connection can subscribe and be pinged. Redis has it from version 6 on.
    pub(super) fn client(&self) -> anyhow::Result<Client> {
        let open = || {
            let client = Client::open(self.url.as_str())?;
            let mut info = client.get_connection_info().clone();
            let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            info = info.set_redis_settings(settings);
            Client::open(info)
        };
        open().with_context(|| format!("{:?} is not the URL of a Redis", without_password(&self.url)))
    }
}

fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, address))) => format!("{scheme}://…@{address}"),
        _ => url.to_owned(),
    }
}

/// What everything in this process that talks to Redis shares.
pub(super) struct RedisContext {
    pub keys: RedisKeys,
    pub settings: RedisSettings,
    pub connection: SharedConnection,
    pub counters: Counters,
    pub clock: Clock,
}

impl RedisContext {
    pub fn new(settings: RedisSettings, clock: &Clock) -> RedisContext {
        RedisContext {
            keys: RedisKeys::new(&settings.issuer),
            settings,
            connection: SharedConnection::new(),
            counters: Counters::default(),
            clock: clock.clone(),
        }
    }

    /// Makes the shared connection again and again until the process hangs up.
    pub async fn keep_connected(self: Arc<Self>, client: Client, stop: CancellationToken) {
        self.connection.keep(&client, &self.settings, &stop).await;
    }

    /// A command failed: it is counted, and the connection is made again.
    pub fn failed(&self, connection: &RedisConnection, error: &RedisError) {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        self.connection.lost(connection, error);
    }
}

#[derive(Default)]
pub(super) struct Counters {
    pub dropped: AtomicU64,
    pub errors: AtomicU64,
    pub lag_ms: AtomicI64,
    /// Whether this process receives what is published.
    pub subscribed: AtomicBool,
}
