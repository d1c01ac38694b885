//! What this process knows of the connections to all gateways.
//!
//! Each gateway is the authority for its own. Every change makes the next version of its list, and every heartbeat names
//! the version, so a process that missed a change finds out, and reads the whole list again. While Redis is away no
//! session is removed: unknown is not offline.

use super::updates::{PendingChanges, PresenceChange, PresenceUpdate, SessionList};
use super::{AnnouncedSession, PresentSessions};
use crate::Aid;
use crate::redis::RedisContext;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// A gateway that is silent for so long is looked up: it is gone if its lease is.
pub(super) const LEASE: Duration = Duration::from_secs(6);
/// Changes kept of a gateway while its list is read.
const MOST_EARLY: usize = 4096;

type ArrivalListener = Box<dyn Fn(&Aid) + Send + Sync>;

pub(crate) struct Replica {
    /// The name of this process.
    pub(super) own: Arc<str>,
    pub(super) state: Mutex<ReplicaState>,
    /// Wakes the announcing task.
    pub(super) pending_added: Notify,
    /// The version of our own list that the others have.
    pub(super) announced: watch::Sender<u64>,
    sessions: PresentSessions,
    listeners: RwLock<Vec<ArrivalListener>>,
    /// Wakes the following task.
    pub(super) wake: Notify,
    pub(super) synced: watch::Sender<bool>,
}

#[derive(Default)]
pub(super) struct ReplicaState {
    pub agents: HashMap<Aid, Vec<KnownSession>>,
    pub gateways: HashMap<Arc<str>, KnownGateway>,
    pub pending: PendingChanges,
    /// Gateways whose list has to be read.
    pub unread: BTreeSet<Arc<str>>,
    /// Whether the set of gateways, and the list of each, has to be read.
    pub resync: bool,
}

pub(super) struct KnownSession {
    pub gateway: Arc<str>,
    pub announced: Arc<AnnouncedSession>,
}

pub(super) struct KnownGateway {
    /// The last change that is known; `None` until its list is read.
    pub version: Option<u64>,
    pub last_update: Instant,
    pub connections: HashMap<u64, Aid>,
    /// Updates that came before the list was read.
    early: Vec<PresenceUpdate>,
}

impl Default for KnownGateway {
    fn default() -> KnownGateway {
        KnownGateway {
            version: None,
            last_update: Instant::now(),
            connections: HashMap::new(),
            early: Vec::new(),
        }
    }
}

impl Replica {
    pub fn new(own: &str) -> Replica {
        Replica {
            own: own.into(),
            state: Mutex::default(),
            pending_added: Notify::new(),
            announced: watch::Sender::new(0),
            sessions: PresentSessions::default(),
            listeners: RwLock::default(),
            wake: Notify::new(),
            synced: watch::Sender::new(false),
        }
    }

    pub fn sessions(&self) -> PresentSessions {
        self.sessions.clone()
    }

    pub fn elsewhere(&self, aid: &Aid) -> Vec<Arc<AnnouncedSession>> {
        let state = self.state.lock();
        let known = state.agents.get(aid).map_or(&[][..], Vec::as_slice);
        known.iter().filter(|known| known.gateway != self.own).map(|known| known.announced.clone()).collect()
    }

    pub fn on_arrival(&self, listener: impl Fn(&Aid) + Send + Sync + 'static) {
        self.listeners.write().push(Box::new(listener));
    }

    /// Returns when the lists of all gateways have been read once.
    pub async fn synced(&self) {
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// We may have missed anything: the version of every list is checked, and no gateway counts as silent yet.
    pub fn resync(&self) {
        let mut state = self.state.lock();
        for gateway in state.gateways.values_mut() {
            gateway.last_update = Instant::now();
        }
        state.resync = true;
        drop(state);
        self.wake.notify_one();
    }

    /// An update from the presence channel.
    pub fn receive(&self, redis: &RedisContext, payload: &[u8]) {
        let Ok(update) = serde_json::from_slice::<PresenceUpdate>(payload) else { return };
        if update.gateway == self.own {
            let lag = redis.clock.now_ms() - update.sent_ms;
            return redis.counters.lag_ms.store(lag, Ordering::Relaxed);
        }
        if update.stops {
            return self.remove_gateway(&update.gateway);
        }
        let mut arrived = Vec::new();
        self.apply_update(&mut self.state.lock(), update, &mut arrived);
        self.notify_arrivals(&arrived);
    }

    fn apply_update(&self, state: &mut ReplicaState, update: PresenceUpdate, arrived: &mut Vec<Aid>) {
        let name = update.gateway.clone();
        let gateway = state.gateways.entry(name.clone()).or_default();
        gateway.last_update = Instant::now();
        let end = update.after + update.changes.len() as u64;
        match gateway.version {
            Some(version) if end <= version => {}
            Some(version) if update.after <= version => {
                gateway.version = Some(end);
                for change in update.changes {
                    self.apply(state, &name, change, arrived);
                }
            }
            _ => {
                if gateway.early.iter().map(|update| update.changes.len() + 1).sum::<usize>() > MOST_EARLY {
                    gateway.early.clear();
                }
                gateway.early.push(update);
                state.unread.insert(name);
                self.wake.notify_one();
            }
        }
    }

    fn apply(
        &self,
        state: &mut ReplicaState,
        gateway: &Arc<str>,
        change: PresenceChange,
        arrived: &mut Vec<Aid>,
    ) {
        match change {
            PresenceChange::Connected(aid, announced) => {
                if self.insert(state, gateway, &aid, announced) {
                    arrived.push(aid);
                }
            }
            PresenceChange::Disconnected(aid, connection) => self.remove(state, gateway, &aid, connection),
        }
    }

    /// Returns whether the connection was not known before.
    pub(super) fn insert(
        &self,
        state: &mut ReplicaState,
        gateway: &Arc<str>,
        aid: &Aid,
        announced: Arc<AnnouncedSession>,
    ) -> bool {
        let connections = &mut state.gateways.entry(gateway.clone()).or_default().connections;
        if connections.insert(announced.session.connection, aid.clone()).is_some() {
            return false;
        }
        let of_agent = state.agents.entry(aid.clone()).or_default();
        let order = |announced: &AnnouncedSession| (announced.since_ms, announced.session.connection);
        let at = of_agent.partition_point(|known| order(&known.announced) < order(&announced));
        of_agent.insert(at, KnownSession { gateway: gateway.clone(), announced });
        self.show(aid, of_agent);
        true
    }

    pub(super) fn remove(&self, state: &mut ReplicaState, gateway: &Arc<str>, aid: &Aid, connection: u64) {
        if let Some(gateway) = state.gateways.get_mut(gateway) {
            gateway.connections.remove(&connection);
        }
        let Some(of_agent) = state.agents.get_mut(aid) else { return };
        of_agent
            .retain(|known| known.announced.session.connection != connection || known.gateway != *gateway);
        self.show(aid, of_agent);
        if of_agent.is_empty() {
            state.agents.remove(aid);
        }
    }

    /// Makes what is known of an agent visible to the services.
    fn show(&self, aid: &Aid, of_agent: &[KnownSession]) {
        let long = of_agent.iter().filter(|known| known.announced.long);
        let shown: Arc<[_]> = long.map(|known| known.announced.session.clone()).collect();
        let mut sessions = self.sessions.write();
        if shown.is_empty() {
            sessions.remove(aid);
        } else {
            sessions.insert(aid.clone(), shown);
        }
    }

    /// A gateway is gone, with all sessions on it.
    pub(super) fn remove_gateway(&self, name: &Arc<str>) {
        let mut state = self.state.lock();
        let Some(gateway) = state.gateways.remove(name) else { return };
        tracing::info!(gateway = %name, connections = gateway.connections.len(), "gateway {name} has left");
        for (connection, aid) in gateway.connections {
            self.remove(&mut state, name, &aid, connection);
        }
    }

    fn notify_arrivals(&self, arrived: &[Aid]) {
        for listener in self.listeners.read().iter() {
            arrived.iter().for_each(listener);
        }
    }

    /// Replaces what is known of a gateway by its list, and by the updates that came while the list was read.
    pub(super) fn replace(&self, name: &Arc<str>, version: u64, sessions: SessionList) {
        let mut arrived = Vec::new();
        let mut state = self.state.lock();
        let gateway = state.gateways.entry(name.clone()).or_default();
        gateway.version = Some(version);
        gateway.last_update = Instant::now();
        let early = std::mem::take(&mut gateway.early);
        let gone: Vec<(u64, Aid)> = gateway
            .connections
            .iter()
            .filter(|(connection, _)| !sessions.contains_key(connection))
            .map(|(connection, aid)| (*connection, aid.clone()))
            .collect();
        for (connection, aid) in gone {
            self.remove(&mut state, name, &aid, connection);
        }
        for (aid, announced) in sessions.into_values() {
            self.apply(&mut state, name, PresenceChange::Connected(aid, announced), &mut arrived);
        }
        for update in early {
            self.apply_update(&mut state, update, &mut arrived);
        }
        drop(state);
        self.notify_arrivals(&arrived);
    }

    /// Gateways without an update for the time of a lease.
    pub(super) fn silent(&self) -> Vec<Arc<str>> {
        let state = self.state.lock();
        let is_silent = |(name, gateway): &(&Arc<str>, &KnownGateway)| {
            **name != self.own && gateway.last_update.elapsed() > LEASE
        };
        state.gateways.iter().filter(is_silent).map(|(name, _)| name.clone()).collect()
    }
}
