//! The bus: a service says who should know what; it does not know who is online.
//!
//! The store is the truth and the event is the bell, so `publish` returns nothing.

use super::redis::{Redis, Stats as BusStats};
use super::{Aid, DeviceId, SlotId};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Event {
    pub to: Audience,
    pub method: String,
    pub params: Box<RawValue>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Audience {
    /// Every long connection of an agent.
    Agent(Aid),
    /// The long connections of one agent, on one device or in one slot or both.
    Instance { aid: Aid, device: Option<DeviceId>, slot: Option<SlotId> },
    /// One long connection.
    Connection { aid: Aid, connection: u64 },
    /// Every long connection of an agent but this one.
    Others { aid: Aid, connection: u64 },
    /// The gateways themselves: something about sessions changed, no client sees the event.
    Gateways,
}

impl Event {
    pub fn new(to: Audience, method: impl Into<String>, params: &impl Serialize) -> Event {
        let params = to_raw_value(params).expect("an event's parameters are plain data");
        Event { to, method: method.into(), params }
    }
}

type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// Who is told in this process. A listener is called in the publisher's task, so events keep their order and nothing
/// queues here.
#[derive(Clone, Default)]
pub(super) struct Listeners(Arc<RwLock<Vec<Listener>>>);

impl Listeners {
    pub fn call(&self, event: &Event) {
        for listener in self.0.read().iter() {
            listener(event);
        }
    }
}

/// Carries events from services to gateways: inside this process by a function call, to other processes over Redis.
#[derive(Clone)]
pub struct Bus {
    listeners: Listeners,
    redis: Option<Redis>,
}

impl Bus {
    /// One process, and nobody else to tell.
    pub fn local() -> Bus {
        Bus { listeners: Listeners::default(), redis: None }
    }

    /// What is published here reaches this process at once, and the others over Redis.
    pub(super) fn wide(redis: &Redis) -> Bus {
        Bus { listeners: redis.0.listeners.clone(), redis: Some(redis.clone()) }
    }

    /// Whether other processes listen, too.
    pub fn is_wide(&self) -> bool {
        self.redis.is_some()
    }

    /// A listener must not block: it hands the event to bounded outboxes.
    pub fn listen(&self, listener: impl Fn(&Event) + Send + Sync + 'static) {
        self.listeners.0.write().push(Arc::new(listener));
    }

    pub fn publish(&self, event: &Event) {
        self.listeners.call(event);
        if let Some(redis) = &self.redis {
            redis.publish(event);
        }
    }

    /// Has events for an agent come to this process, from before the answer is given until it is dropped.
    pub async fn subscribe(&self, aid: &Aid) -> Subscription {
        let Some(redis) = &self.redis else { return Subscription(None) };
        // Made first: a login that is given up while it waits must not stay counted.
        let subscription = Subscription(Some((redis.clone(), aid.clone())));
        redis.hear(aid).await;
        subscription
    }

    /// Says whose bells may have been missed, each time that some may have been.
    pub fn on_resync(&self, listener: impl Fn(Vec<Aid>) + Send + Sync + 'static) {
        if let Some(redis) = &self.redis {
            redis.on_resync(listener);
        }
    }

    /// Counts something over all processes: `Err` says how long to wait. In one process its own limits are enough, and so
    /// they are while Redis is away.
    pub async fn count(&self, what: &str, per_minute: u32) -> Result<(), Duration> {
        match &self.redis {
            Some(redis) => redis.count(what, per_minute).await,
            None => Ok(()),
        }
    }

    /// How the traffic between processes goes.
    pub fn stats(&self) -> Option<BusStats> {
        self.redis.as_ref().map(Redis::stats)
    }

    /// The last thing a process does with it: what waits to be published is.
    pub async fn close(&self) {
        if let Some(redis) = &self.redis {
            redis.close().await;
        }
    }
}

/// Events for one agent come to this process while somebody has one of these.
pub struct Subscription(Option<(Redis, Aid)>);

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some((redis, aid)) = &self.0 {
            redis.forget(aid);
        }
    }
}
