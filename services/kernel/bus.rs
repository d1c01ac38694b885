//! The bus: a room says who should know what; it does not know who is online.
//!
//! The store is the truth and the event is the bell, so `publish` returns nothing.

use super::{Aid, DeviceId, SlotId};
use parking_lot::RwLock;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Event {
    pub to: Audience,
    pub method: String,
    pub params: Box<RawValue>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Every long connection of an agent.
    Agent(Aid),
    /// The long connections of one agent, on one device or in one slot or both.
    Instance { aid: Aid, device: Option<DeviceId>, slot: Option<SlotId> },
    /// One long connection.
    Connection { aid: Aid, connection: u64 },
    /// Every long connection of an agent but this one.
    Others { aid: Aid, connection: u64 },
    /// The doors themselves: something about sessions changed, no client sees the event.
    Doors,
}

impl Event {
    pub fn new(to: Audience, method: impl Into<String>, params: &impl Serialize) -> Event {
        let params = to_raw_value(params).expect("an event's parameters are plain data");
        Event { to, method: method.into(), params }
    }
}

type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// Carries events from rooms to doors.
#[derive(Clone)]
pub enum Bus {
    /// One process: a listener is called in the publisher's task, so events keep their order and nothing queues here.
    Local(Arc<RwLock<Vec<Listener>>>),
}

impl Bus {
    pub fn local() -> Bus {
        Bus::Local(Arc::default())
    }

    /// A listener must not block: it hands the event to bounded outboxes.
    pub fn listen(&self, listener: impl Fn(&Event) + Send + Sync + 'static) {
        let Bus::Local(listeners) = self;
        listeners.write().push(Arc::new(listener));
    }

    pub fn publish(&self, event: &Event) {
        let Bus::Local(listeners) = self;
        for listener in listeners.read().iter() {
            listener(event);
        }
    }
}
