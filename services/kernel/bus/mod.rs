//! The bus: a service publishes an event to an audience; it does not know who is online.
//!
//! The store is the truth and an event is only a notification, so `publish` returns nothing.

mod redis;

pub use redis::{BusStats, RedisBus};

use super::event::EventListeners;
use super::{Aid, Event};
use proto_schemas::Signal;
use std::time::Duration;

/// Carries events from services to gateways: inside this process by a function call, to other processes over Redis.
#[derive(Clone)]
pub struct Bus {
    listeners: EventListeners,
    redis: Option<RedisBus>,
}

impl Bus {
    /// For a server of one process.
    pub fn local() -> Bus {
        Bus { listeners: EventListeners::default(), redis: None }
    }

    /// Whether other processes listen, too.
    pub fn is_wide(&self) -> bool {
        self.redis.is_some()
    }

    /// A listener must not block: it hands the event to bounded outboxes.
    pub fn listen(&self, listener: impl Fn(&Event) + Send + Sync + 'static) {
        self.listeners.add(listener);
    }

    /// The listeners of this process have been called when this returns; other processes get it over Redis.
    pub fn publish(&self, event: &Event) {
        self.listeners.call(event);
        if let Some(redis) = &self.redis {
            redis.publish(event);
        }
    }

    /// Tells every process of the server, this one too.
    pub fn signal(&self, signal: &impl Signal) {
        self.publish(&Event::signal(signal));
    }

    /// Has events for an agent come to this process, from before this returns until the subscription is dropped.
    pub async fn subscribe(&self, aid: &Aid) -> Subscription {
        let Some(redis) = &self.redis else { return Subscription(None) };
        // Made first: a login that is cancelled while it waits must not stay counted.
        let subscription = Subscription(Some((redis.clone(), aid.clone())));
        redis.subscribe(aid).await;
        subscription
    }

    /// The listener gets the agents whose events may have been missed, each time that some may have been.
    pub fn on_resync(&self, listener: impl Fn(Vec<Aid>) + Send + Sync + 'static) {
        if let Some(redis) = &self.redis {
            redis.on_resync(listener);
        }
    }

    /// Counts something over all processes: `Err` says how long to wait. In one process its own limits are enough, and so
    /// they are while Redis is away.
    pub async fn count(&self, what: &str, most: u32, time: Duration) -> Result<(), Duration> {
        match &self.redis {
            Some(redis) => redis.count(what, most, time).await,
            None => Ok(()),
        }
    }

    /// How the traffic between processes goes.
    pub fn stats(&self) -> Option<BusStats> {
        self.redis.as_ref().map(RedisBus::stats)
    }

    /// The last thing a process does with it: what waits to be published is published.
    pub async fn close(&self) {
        if let Some(redis) = &self.redis {
            redis.close().await;
        }
    }
}

/// Events for one agent come to this process while there is one of these.
pub struct Subscription(Option<(RedisBus, Aid)>);

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some((redis, aid)) = &self.0 {
            redis.unsubscribe(aid);
        }
    }
}
