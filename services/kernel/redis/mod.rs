//! Redis between processes: a bell and a hint, never the truth.
//!
//! Events travel on one channel an agent, who is connected where is repeated by each gateway every two seconds, and rate
//! limits of several gateways are counted together. Lose Redis, restart it or flush it, and what is lost heals by itself:
//! the store knows every message, and each gateway knows its own connections.

mod ears;
mod line;
mod publish;
mod rate;

#[cfg(test)]
mod tests;

pub(super) use line::{Live, command};

use super::{Aid, Audience, Bus, Clock, Event, Ids, Presence};
use crate::kernel::bus::Listeners;
use crate::kernel::presence::Replica;
use anyhow::Context as _;
use ears::Ears;
use line::Line;
use publish::Outgoing;
use redis::{Client, ProtocolVersion};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a starting process waits to learn who is connected, and a stopping one to say the rest.
const START: Duration = Duration::from_secs(2);
const STOP: Duration = Duration::from_secs(2);

/// How a process uses Redis.
#[derive(Clone, Debug)]
pub struct Settings {
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

impl Settings {
    /// `?prefix=NAME` at the end of the URL takes the place of the issuer, where two servers of one domain share a Redis.
    pub fn new(url: &str, issuer: &str, gateway: bool) -> Settings {
        let (url, prefix) = url.split_once("?prefix=").unwrap_or((url, issuer));
        Settings {
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
    fn client(&self) -> anyhow::Result<Client> {
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
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://…@{place}"),
        _ => url.to_owned(),
    }
}

/// One process's end of it. [`Redis::bus`] and [`Redis::presence`] are what the services and the gateway get.
#[derive(Clone)]
pub struct Redis(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub names: Names,
    pub settings: Arc<Settings>,
    pub line: Arc<Line>,
    pub stats: Counters,
    pub clock: Clock,
    pub listeners: Listeners,
    pub replica: Arc<Replica>,
    outgoing: Outgoing,
    ears: Ears,
    tracker: TaskTracker,
    /// Cancelled when the process stops: what waits is still said.
    stop: CancellationToken,
    /// Cancelled after that.
    hang_up: CancellationToken,
}

impl Redis {
    /// Never waits for a Redis that is away: the process serves without, and finds it later.
    pub async fn open(settings: Settings, clock: &Clock) -> anyhow::Result<Redis> {
        let client = settings.client()?;
        let names = Names::new(&settings.issuer);
        let settings = Arc::new(settings);
        let inner = Arc::new(Inner {
            replica: Arc::new(Replica::new(&names.process)),
            outgoing: Outgoing::new(settings.queue_bytes),
            ears: Ears::default(),
            line: Arc::new(Line::new()),
            stats: Counters::default(),
            clock: clock.clone(),
            listeners: Listeners::default(),
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
            hang_up: CancellationToken::new(),
            names,
            settings,
        });
        let redis = Redis(inner);
        redis.start(client);
        let _ = tokio::time::timeout(START, redis.0.replica.synced()).await;
        Ok(redis)
    }

    fn start(&self, client: Client) {
        let Redis(inner) = self;
        let (stop, hang_up) = (inner.stop.clone(), inner.hang_up.clone());
        let tracker = &inner.tracker;
        tracker.spawn(inner.line.clone().keep(client.clone(), inner.settings.clone(), hang_up.clone()));
        tracker.spawn(ears::run(inner.clone(), client, hang_up.clone()));
        tracker.spawn(inner.replica.clone().watch(inner.clone(), hang_up));
        let publisher = tracker.spawn(publish::run(inner.clone(), stop.clone()));
        let announcer = inner.settings.gateway.then(|| {
            let (replica, world, stop) = (inner.replica.clone(), inner.clone(), stop.clone());
            tracker.spawn(async move { replica.announce(world, stop).await })
        });
        // The lines are hung up when the last word is said.
        let lines = inner.hang_up.clone();
        tracker.spawn(async move {
            let _ = publisher.await;
            if let Some(announcer) = announcer {
                let _ = announcer.await;
            }
            lines.cancel();
        });
    }

    pub fn bus(&self) -> Bus {
        Bus::wide(self)
    }

    pub fn presence(&self) -> Presence {
        self.0.replica.clone().into()
    }

    /// Says what waits to be said, takes this process off the list, and ends.
    pub async fn close(&self) {
        self.0.stop.cancel();
        self.0.tracker.close();
        if tokio::time::timeout(STOP, self.0.tracker.wait()).await.is_err() {
            self.0.hang_up.cancel();
        }
    }

    pub fn stats(&self) -> Stats {
        let Counters { dropped, errors, lag_ms, up, .. } = &self.0.stats;
        Stats {
            queue_bytes: self.0.outgoing.bytes(),
            dropped: dropped.load(Ordering::Relaxed),
            errors: errors.load(Ordering::Relaxed),
            lag_ms: lag_ms.load(Ordering::Relaxed),
            up: up.load(Ordering::Relaxed) && self.0.line.now().is_some(),
        }
    }

    pub(super) fn publish(&self, event: &Event) {
        self.0.outgoing.push(&self.0, event);
    }

    /// Hears what is for an agent, until the answer is dropped. See [`Bus::hear`].
    pub(super) async fn hear(&self, aid: &Aid) {
        self.0.ears.want(aid, self.0.stats.up.load(Ordering::Relaxed)).await;
    }

    pub(super) fn forget(&self, aid: &Aid) {
        self.0.ears.leave(aid);
    }

    pub(super) fn on_resync(&self, listener: impl Fn(Vec<Aid>) + Send + Sync + 'static) {
        self.0.ears.on_resync(listener);
    }
}

/// The channels and keys of one domain.
pub(super) struct Names {
    /// This process: what it publishes it does not hear again.
    pub process: String,
    pub presence: String,
    /// The channel of events for the gateways themselves.
    pub gateway_events: String,
    /// The set of the gateways that are there.
    pub gateways: String,
    issuer: String,
}

impl Names {
    fn new(issuer: &str) -> Names {
        Names {
            process: hex::encode(Ids::default().bytes::<8>()),
            presence: format!("aund:{{{issuer}}}:presence"),
            gateway_events: format!("aund:{{{issuer}}}:gateway_events"),
            gateways: format!("aund:{{{issuer}}}:gateways"),
            issuer: issuer.to_owned(),
        }
    }

    /// The part in braces chooses the shard: agents spread over all of them.
    pub fn agent(&self, aid: &Aid) -> String {
        format!("aund:{}:aid:{{{aid}}}", self.issuer)
    }

    pub fn audience(&self, to: &Audience) -> String {
        match to {
            Audience::Agent(aid)
            | Audience::Instance { aid, .. }
            | Audience::Connection { aid, .. }
            | Audience::Others { aid, .. } => self.agent(aid),
            Audience::Gateways => self.gateway_events.clone(),
        }
    }

    /// Who is connected to a gateway: a hash, by connection.
    pub fn sessions(&self, gateway: &str) -> String {
        format!("aund:{{{}}}:sessions:{gateway}", self.issuer)
    }

    /// There while the gateway lives.
    pub fn lease(&self, gateway: &str) -> String {
        format!("aund:{{{}}}:gateway:{gateway}", self.issuer)
    }

    fn rate(&self, what: &str) -> String {
        format!("aund:{}:rate:{{{what}}}", self.issuer)
    }
}

#[derive(Default)]
pub(super) struct Counters {
    pub dropped: AtomicU64,
    pub errors: AtomicU64,
    pub lag_ms: AtomicI64,
    /// Whether this process hears what is published.
    pub up: AtomicBool,
}

/// How the traffic with Redis goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// What waits to be published.
    pub queue_bytes: usize,
    /// Events that found the queue full or waited too long in it.
    pub dropped: u64,
    /// Commands that failed.
    pub errors: u64,
    /// How long our own last heartbeat took to come back to us.
    pub lag_ms: i64,
    pub up: bool,
}
