//! Events: their audience, and their listeners in this process.

use super::{Aid, DeviceId, SlotId};
use bytes::Bytes;
use parking_lot::RwLock;
use proto_schemas::Signal;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::sync::{Arc, OnceLock};

#[derive(Clone, Debug)]
pub struct Event {
    pub to: Audience,
    pub method: String,
    pub params: Box<RawValue>,
    /// The frame that clients get, from when a gateway has written it: all outboxes hold the same bytes, also where the event is published
    /// to one agent after the other by changing `to`.
    pub frame: OnceLock<Bytes>,
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
    /// Every long connection of an agent but those of this device and slot: for what another domain tells, which does not
    /// know connections.
    OtherInstances { aid: Aid, device: DeviceId, slot: SlotId },
    /// The processes themselves, gateways and services: the event is a signal, which no client sees.
    Gateways,
}

impl Event {
    pub fn new(to: Audience, method: impl Into<String>, params: &impl Serialize) -> Event {
        let params = to_raw_value(params).expect("an event's parameters are plain data");
        Event::with_params(to, method, params)
    }

    /// An event whose parameters are written already.
    pub fn with_params(to: Audience, method: impl Into<String>, params: Box<RawValue>) -> Event {
        Event { to, method: method.into(), params, frame: OnceLock::new() }
    }

    /// What processes tell each other.
    pub fn signal<S: Signal>(signal: &S) -> Event {
        Event::new(Audience::Gateways, S::NAME, signal)
    }

    /// The signal, if the event is this one.
    pub fn as_signal<S: Signal>(&self) -> Option<S> {
        if self.to != Audience::Gateways || self.method != S::NAME {
            return None;
        }
        serde_json::from_str(self.params.get()).ok()
    }
}

type EventListener = Arc<dyn Fn(&Event) + Send + Sync>;

/// The listeners of this process. They are called in the publisher's task, so events keep their order and nothing queues
/// here.
#[derive(Clone, Default)]
pub(super) struct EventListeners(Arc<RwLock<Vec<EventListener>>>);

impl EventListeners {
    pub fn add(&self, listener: impl Fn(&Event) + Send + Sync + 'static) {
        self.0.write().push(Arc::new(listener));
    }

    pub fn call(&self, event: &Event) {
        for listener in self.0.read().iter() {
            listener(event);
        }
    }
}
