//! Who is online: the long connections of each agent, as the gateways report them.

mod announce;
mod follow;
mod replica;
mod updates;

pub use proto_schemas::Mode;
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
pub struct PresentSession {
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

/// A connection as gateways announce it to each other, with what decides which connections of an agent may stay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnnouncedSession {
    pub session: PresentSession,
    /// Only long connections are visible to the services.
    pub long: bool,
    /// Orders the connections of one agent: later than every connection of it that the gateway knew.
    pub since_ms: i64,
    /// Sent to a connection that is closed in favour of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_info: Option<Box<RawValue>>,
    /// What the client declared in `auth.connect` that it can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Box<RawValue>>,
    /// The connections that were closed in favour of it. Another gateway may learn of it when some of them are gone
    /// already: without this it would close one more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instead_of: Vec<u64>,
}

/// Read for every message and written once a connection: readers share the list and copy nothing.
type PresentSessions = Arc<RwLock<HashMap<Aid, Arc<[PresentSession]>>>>;

/// Who is online. Always read from this process's memory; with several gateways that follows what they announce.
#[derive(Clone)]
pub struct Presence {
    sessions: PresentSessions,
    replica: Option<Arc<Replica>>,
}

impl Presence {
    pub fn local() -> Presence {
        Presence { sessions: PresentSessions::default(), replica: None }
    }

    /// Adds a long connection of this process.
    pub fn arrive(&self, aid: &Aid, session: PresentSession) {
        self.admit(
            aid,
            AnnouncedSession {
                session,
                long: true,
                since_ms: 0,
                extra_info: None,
                capabilities: None,
                instead_of: Vec::new(),
            },
        );
    }

    /// The same with all that other gateways need; short connections are announced to them, too.
    pub fn admit(&self, aid: &Aid, announced: AnnouncedSession) {
        if let Some(replica) = &self.replica {
            return replica.admit(aid, announced);
        }
        if announced.long {
            let mut sessions = self.sessions.write();
            let of_agent = sessions.entry(aid.clone()).or_default();
            *of_agent = of_agent.iter().cloned().chain([announced.session]).collect();
        }
    }

    pub fn leave(&self, aid: &Aid, connection: u64) {
        if let Some(replica) = &self.replica {
            return replica.leave(aid, connection);
        }
        let mut sessions = self.sessions.write();
        let Some(of_agent) = sessions.get_mut(aid) else { return };
        *of_agent = of_agent.iter().filter(|session| session.connection != connection).cloned().collect();
        if of_agent.is_empty() {
            sessions.remove(aid);
        }
    }

    /// Short connections never make an agent online.
    pub fn is_online(&self, aid: &Aid) -> bool {
        self.sessions.read().contains_key(aid)
    }

    /// Whether an event might reach a session. Another gateway may have admitted one a moment ago, and its announcement may
    /// still be on its way here: with several gateways only the bus knows.
    pub fn may_be_online(&self, aid: &Aid) -> bool {
        self.replica.is_some() || self.is_online(aid)
    }

    pub fn sessions(&self, aid: &Aid) -> Arc<[PresentSession]> {
        self.sessions.read().get(aid).cloned().unwrap_or_default()
    }

    /// How many sessions all agents have together.
    pub fn count(&self) -> usize {
        self.sessions.read().values().map(|sessions| sessions.len()).sum()
    }

    /// The connections of an agent to other gateways, long and short, oldest first.
    pub fn elsewhere(&self, aid: &Aid) -> Vec<Arc<AnnouncedSession>> {
        self.replica.as_ref().map_or_else(Vec::new, |replica| replica.elsewhere(aid))
    }

    /// The listener is called whenever an agent connects to another gateway, without a lock held.
    pub fn on_arrival_elsewhere(&self, listener: impl Fn(&Aid) + Send + Sync + 'static) {
        if let Some(replica) = &self.replica {
            replica.on_arrival(listener);
        }
    }

    /// Returns when every change until now has been announced to the other processes; after half a second at the latest,
    /// for no login waits for Redis.
    pub async fn announced(&self) {
        if let Some(replica) = &self.replica {
            replica.announced().await;
        }
    }
}

impl From<Arc<Replica>> for Presence {
    fn from(replica: Arc<Replica>) -> Presence {
        Presence { sessions: replica.sessions(), replica: Some(replica) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_online_while_it_has_a_session() {
        let (presence, aid) = (Presence::local(), Aid::parse("alice.aid.pub").unwrap());
        let session = |connection| PresentSession {
            connection,
            device: DeviceId::default(),
            slot: SlotId::default(),
            address: [127, 0, 0, 1].into(),
            delivery: Delivery::default(),
        };
        presence.arrive(&aid, session(1));
        presence.arrive(&aid, session(2));
        presence.leave(&aid, 1);
        assert!(presence.is_online(&aid));
        presence.leave(&aid, 2);
        presence.leave(&aid, 2);
        assert!(!presence.is_online(&aid));
    }
}
