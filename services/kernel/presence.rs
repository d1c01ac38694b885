//! Who is here: the long connections of each agent, as the doors report them.

use super::{Aid, DeviceId, SlotId};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// One long connection.
#[derive(Clone, Debug, PartialEq, Eq)]
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

#[derive(Clone)]
pub enum Presence {
    /// Read for every message and written once a connection: who asks gets the list itself, not a copy.
    Local(Arc<RwLock<HashMap<Aid, Arc<[Seat]>>>>),
}

impl Presence {
    pub fn local() -> Presence {
        Presence::Local(Arc::default())
    }

    pub fn arrive(&self, aid: &Aid, seat: Seat) {
        let Presence::Local(seats) = self;
        let mut seats = seats.write();
        let of_agent = seats.entry(aid.clone()).or_default();
        *of_agent = of_agent.iter().cloned().chain([seat]).collect();
    }

    pub fn leave(&self, aid: &Aid, connection: u64) {
        let Presence::Local(seats) = self;
        let mut seats = seats.write();
        let Some(of_agent) = seats.get_mut(aid) else { return };
        *of_agent = of_agent.iter().filter(|seat| seat.connection != connection).cloned().collect();
        if of_agent.is_empty() {
            seats.remove(aid);
        }
    }

    /// Short connections never make an agent online: only long ones take a seat.
    pub fn is_online(&self, aid: &Aid) -> bool {
        let Presence::Local(seats) = self;
        seats.read().contains_key(aid)
    }

    pub fn seats(&self, aid: &Aid) -> Arc<[Seat]> {
        let Presence::Local(seats) = self;
        seats.read().get(aid).cloned().unwrap_or_default()
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
