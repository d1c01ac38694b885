//! Who is here: the long connections of each agent, as the gateways report them.

mod announce;
mod follow;
mod replica;

pub(super) use replica::Replica;

use super::{Aid, DeviceId, SlotId};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// One long connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    pub connection: u64,
    pub device: DeviceId,
    pub slot: SlotId,
    pub address: IpAddr,
    pub delivery: Delivery,
}

/// How messages reach the connections of an agent; all of them must agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    #[serde(default)]
    pub mode: Mode,
    #[serde(default)]
    pub routing: String,
    #[serde(default)]
    pub affinity_ttl_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every device gets it, now or later.
    #[default]
    Fanout,
    /// One connection gets it, now.
    Queue,
}

/// A connection, as gateways tell each other of it: with what their rules of who may stay go by.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guest {
    pub seat: Seat,
    /// Only long connections have a seat in the eyes of the services.
    pub long: bool,
    /// Orders the connections of one agent; later than that of every connection its gateway knew of.
    pub since_ms: i64,
    /// What the client wants a connection to hear that has to go for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_info: Option<Box<RawValue>>,
    /// The connections that had to go for it. Some may have gone before others hear of it: without this they would look
    /// for somebody else who has to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instead_of: Vec<u64>,
}

/// Read for every message and written once a connection: who asks gets the list itself, not a copy.
type Seats = Arc<RwLock<HashMap<Aid, Arc<[Seat]>>>>;

/// Who is here. What is read is in this process's memory always; with several gateways it follows what they say.
#[derive(Clone)]
pub struct Presence {
    seats: Seats,
    replica: Option<Arc<Replica>>,
}

impl Presence {
    pub fn local() -> Presence {
        Presence { seats: Seats::default(), replica: None }
    }

    /// Takes a seat for a long connection of this process.
    pub fn arrive(&self, aid: &Aid, seat: Seat) {
        self.admit(aid, Guest { seat, long: true, since_ms: 0, extra_info: None, instead_of: Vec::new() });
    }

    /// The same with all that other gateways need; they hear of short connections, too.
    pub fn admit(&self, aid: &Aid, guest: Guest) {
        if let Some(replica) = &self.replica {
            return replica.admit(aid, guest);
        }
        if guest.long {
            let mut seats = self.seats.write();
            let of_agent = seats.entry(aid.clone()).or_default();
            *of_agent = of_agent.iter().cloned().chain([guest.seat]).collect();
        }
    }

    pub fn leave(&self, aid: &Aid, connection: u64) {
        if let Some(replica) = &self.replica {
            return replica.leave(aid, connection);
        }
        let mut seats = self.seats.write();
        let Some(of_agent) = seats.get_mut(aid) else { return };
        *of_agent = of_agent.iter().filter(|seat| seat.connection != connection).cloned().collect();
        if of_agent.is_empty() {
            seats.remove(aid);
        }
    }

    /// Short connections never make an agent online: only long ones take a seat.
    pub fn is_online(&self, aid: &Aid) -> bool {
        self.seats.read().contains_key(aid)
    }

    /// Whether an event might find somebody. Another gateway may have let him in a moment ago and is not heard yet: then
    /// nobody but the bus knows.
    pub fn may_be_online(&self, aid: &Aid) -> bool {
        self.replica.is_some() || self.is_online(aid)
    }

    pub fn seats(&self, aid: &Aid) -> Arc<[Seat]> {
        self.seats.read().get(aid).cloned().unwrap_or_default()
    }

    /// Every seat that is taken, of all agents.
    pub fn taken(&self) -> usize {
        self.seats.read().values().map(|seats| seats.len()).sum()
    }

    /// The connections of an agent to other gateways, long and short, oldest first.
    pub fn elsewhere(&self, aid: &Aid) -> Vec<Arc<Guest>> {
        self.replica.as_ref().map_or_else(Vec::new, |replica| replica.elsewhere(aid))
    }

    /// Says whenever an agent connects to another gateway. Called without a lock.
    pub fn on_arrival_elsewhere(&self, listener: impl Fn(&Aid) + Send + Sync + 'static) {
        if let Some(replica) = &self.replica {
            replica.on_arrival(listener);
        }
    }

    /// Returns when the other processes have been told of everybody who came and left until now; not later than half a
    /// second, for nobody's login waits for Redis.
    pub async fn announced(&self) {
        if let Some(replica) = &self.replica {
            replica.announced().await;
        }
    }
}

impl From<Arc<Replica>> for Presence {
    fn from(replica: Arc<Replica>) -> Presence {
        Presence { seats: replica.seats(), replica: Some(replica) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_online_while_one_seat_is_taken() {
        let (presence, aid) = (Presence::local(), Aid::parse("alice.aid.pub").unwrap());
        let seat = |connection| Seat {
            connection,
            device: DeviceId::default(),
            slot: SlotId::default(),
            address: [127, 0, 0, 1].into(),
            delivery: Delivery::default(),
        };
        presence.arrive(&aid, seat(1));
        presence.arrive(&aid, seat(2));
        presence.leave(&aid, 1);
        assert!(presence.is_online(&aid));
        presence.leave(&aid, 2);
        presence.leave(&aid, 2);
        assert!(!presence.is_online(&aid));
    }
}
