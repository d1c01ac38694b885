//! The bus and presence between processes, over Redis: notifications and hints, never the truth.
//!
//! Events travel on one channel an agent, who is connected where is repeated by each gateway every two seconds, and rate
//! limits of several gateways are counted together. Lose Redis, restart it or flush it, and what is lost is restored
//! without anybody's help: the store knows every message, and each gateway knows its own connections.

mod publish;
mod subscribe;

#[cfg(test)]
mod tests;

use super::Bus;
use crate::event::EventListeners;
use crate::presence::Replica;
use crate::redis::{Counters, RedisContext, RedisSettings};
use crate::{Aid, Clock, Event, Presence};
use publish::PublishQueue;
use redis::Client;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use subscribe::Subscriptions;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a starting process waits to learn who is connected, and a stopping one to publish the rest.
const START_TIMEOUT: Duration = Duration::from_secs(2);
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// One process's end of it. [`RedisBus::bus`] and [`RedisBus::presence`] are what the services and the gateway get.
#[derive(Clone)]
pub struct RedisBus(Arc<RedisBusInner>);

struct RedisBusInner {
    redis: Arc<RedisContext>,
    listeners: EventListeners,
    replica: Arc<Replica>,
    queue: PublishQueue,
    subscriptions: Subscriptions,
    tracker: TaskTracker,
    /// Cancelled when the process stops: what waits is still published.
    stop: CancellationToken,
    /// Cancelled after that.
    hang_up: CancellationToken,
}

impl RedisBus {
    /// Never waits for a Redis that is away: the process serves without, and connects later.
    pub async fn open(settings: RedisSettings, clock: &Clock) -> anyhow::Result<RedisBus> {
        let client = settings.client()?;
        let queue = PublishQueue::new(settings.queue_bytes);
        let redis = RedisContext::new(settings, clock);
        let bus = RedisBus(Arc::new(RedisBusInner {
            replica: Arc::new(Replica::new(&redis.keys.process)),
            redis: Arc::new(redis),
            listeners: EventListeners::default(),
            queue,
            subscriptions: Subscriptions::default(),
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
            hang_up: CancellationToken::new(),
        }));
        bus.start(client);
        let _ = tokio::time::timeout(START_TIMEOUT, bus.0.replica.synced()).await;
        Ok(bus)
    }

    fn start(&self, client: Client) {
        let RedisBus(inner) = self;
        let (stop, hang_up) = (inner.stop.clone(), inner.hang_up.clone());
        let (tracker, redis) = (&inner.tracker, &inner.redis);
        tracker.spawn(redis.clone().keep_connected(client.clone(), hang_up.clone()));
        tracker.spawn(subscribe::run(inner.clone(), client, hang_up.clone()));
        tracker.spawn(inner.replica.clone().follow(redis.clone(), hang_up));
        let publisher = tracker.spawn(publish::run(inner.clone(), stop.clone()));
        let announcer = redis.settings.gateway.then(|| {
            let (replica, redis, stop) = (inner.replica.clone(), redis.clone(), stop.clone());
            tracker.spawn(async move { replica.announce(redis, stop).await })
        });
        // The connections are closed when both have written their last.
        let hang_up = inner.hang_up.clone();
        tracker.spawn(async move {
            let _ = publisher.await;
            if let Some(announcer) = announcer {
                let _ = announcer.await;
            }
            hang_up.cancel();
        });
    }

    /// What is published on it reaches this process at once, and the others over Redis.
    pub fn bus(&self) -> Bus {
        Bus { listeners: self.0.listeners.clone(), redis: Some(self.clone()) }
    }

    pub fn presence(&self) -> Presence {
        self.0.replica.clone().into()
    }

    /// Publishes what waits, takes this process off the list of gateways, and ends.
    pub async fn close(&self) {
        self.0.stop.cancel();
        self.0.tracker.close();
        if tokio::time::timeout(STOP_TIMEOUT, self.0.tracker.wait()).await.is_err() {
            self.0.hang_up.cancel();
        }
    }

    pub fn stats(&self) -> BusStats {
        let Counters { dropped, errors, lag_ms, subscribed } = &self.0.redis.counters;
        BusStats {
            queue_bytes: self.0.queue.bytes(),
            dropped: dropped.load(Ordering::Relaxed),
            errors: errors.load(Ordering::Relaxed),
            lag_ms: lag_ms.load(Ordering::Relaxed),
            up: subscribed.load(Ordering::Relaxed) && self.0.redis.connection.now().is_some(),
        }
    }

    pub(super) fn publish(&self, event: &Event) {
        self.0.queue.push(&self.0.redis, event);
    }

    /// See [`Bus::subscribe`].
    pub(super) async fn subscribe(&self, aid: &Aid) {
        let is_up = self.0.redis.counters.subscribed.load(Ordering::Relaxed);
        self.0.subscriptions.add(aid, is_up).await;
    }

    pub(super) fn unsubscribe(&self, aid: &Aid) {
        self.0.subscriptions.remove(aid);
    }

    pub(super) fn on_resync(&self, listener: impl Fn(Vec<Aid>) + Send + Sync + 'static) {
        self.0.subscriptions.on_resync(listener);
    }

    pub(super) async fn count(&self, what: &str, most: u32, time: Duration) -> Result<(), Duration> {
        self.0.redis.count(what, most, time).await
    }
}

/// How the traffic with Redis goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusStats {
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
