//! What this process knows of the connections to all gateways.
//!
//! Each gateway is the authority for its own. It numbers every change and says the number with every heartbeat, so whoever
//! missed one knows, and reads the whole list again. While Redis is away nobody is forgotten: unknown is not offline.

use super::announce::Speech;
use super::{AnnouncedSession, PresentSessions};
use crate::kernel::Aid;
use crate::kernel::redis::Inner;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// A gateway that is silent for so long is asked after: it is gone if its lease is.
pub(super) const LEASE: Duration = Duration::from_secs(6);
/// Changes kept of a gateway while its list is read.
const MISSED: usize = 4096;
/// The field of a list that holds its number. Without one the list is being written.
pub(super) const NUMBER: &str = "#";

/// The connections to one gateway, by their number.
pub(super) type List = HashMap<u64, (Aid, Arc<AnnouncedSession>)>;

type Listener = Box<dyn Fn(&Aid) + Send + Sync>;

pub(in crate::kernel) struct Replica {
    pub(super) own: Arc<str>,
    pub(super) state: Mutex<State>,
    pub(super) speak: Notify,
    pub(super) told: watch::Sender<u64>,
    sessions: PresentSessions,
    listeners: RwLock<Vec<Listener>>,
    pub(super) look: Notify,
    pub(super) synced: watch::Sender<bool>,
}

#[derive(Default)]
pub(super) struct State {
    pub agents: HashMap<Aid, Vec<Known>>,
    pub gateways: HashMap<Arc<str>, Gateway>,
    pub speech: Speech,
    /// Gateways whose list has to be read.
    pub wanted: BTreeSet<Arc<str>>,
    /// Whether all of them have to be found again.
    pub start_again: bool,
}

pub(super) struct Known {
    pub gateway: Arc<str>,
    pub announced: Arc<AnnouncedSession>,
}

pub(super) struct Gateway {
    /// The last change that is known; `None` until its list is read.
    pub number: Option<u64>,
    pub heard: Instant,
    pub connections: HashMap<u64, Aid>,
    missed: Vec<Note>,
}

impl Default for Gateway {
    fn default() -> Gateway {
        Gateway { number: None, heard: Instant::now(), connections: HashMap::new(), missed: Vec::new() }
    }
}

/// What a gateway says, at least every two seconds.
#[derive(Serialize, Deserialize)]
pub(super) struct Note {
    pub gateway: Arc<str>,
    /// How many changes there were before these.
    pub after: u64,
    pub sent_ms: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// The last note of all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bye: bool,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Change {
    Here(Aid, Arc<AnnouncedSession>),
    Gone(Aid, u64),
}

impl Replica {
    pub fn new(own: &str) -> Replica {
        Replica {
            own: own.into(),
            state: Mutex::default(),
            speak: Notify::new(),
            told: watch::Sender::new(0),
            sessions: PresentSessions::default(),
            listeners: RwLock::default(),
            look: Notify::new(),
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

    /// We may have missed anything: everybody's number is asked for, and nobody counts as silent yet.
    pub fn start_again(&self) {
        let mut state = self.state.lock();
        for gateway in state.gateways.values_mut() {
            gateway.heard = Instant::now();
        }
        state.start_again = true;
        drop(state);
        self.look.notify_one();
    }

    /// A note from the presence channel.
    pub fn hear(&self, inner: &Inner, payload: &[u8]) {
        let Ok(note) = serde_json::from_slice::<Note>(payload) else { return };
        if note.gateway == self.own {
            return inner.stats.lag_ms.store(inner.clock.now_ms() - note.sent_ms, Ordering::Relaxed);
        }
        if note.bye {
            return self.forget(&note.gateway);
        }
        let mut arrived = Vec::new();
        self.take(&mut self.state.lock(), note, &mut arrived);
        self.tell(&arrived);
    }

    fn take(&self, state: &mut State, note: Note, arrived: &mut Vec<Aid>) {
        let name = note.gateway.clone();
        let gateway = state.gateways.entry(name.clone()).or_default();
        gateway.heard = Instant::now();
        let end = note.after + note.changes.len() as u64;
        match gateway.number {
            Some(number) if end <= number => {}
            Some(number) if note.after <= number => {
                gateway.number = Some(end);
                for change in note.changes {
                    self.apply(state, &name, change, arrived);
                }
            }
            _ => {
                if gateway.missed.iter().map(|note| note.changes.len() + 1).sum::<usize>() > MISSED {
                    gateway.missed.clear();
                }
                gateway.missed.push(note);
                state.wanted.insert(name);
                self.look.notify_one();
            }
        }
    }

    fn apply(&self, state: &mut State, gateway: &Arc<str>, change: Change, arrived: &mut Vec<Aid>) {
        match change {
            Change::Here(aid, announced) => {
                if self.place(state, gateway, &aid, announced) {
                    arrived.push(aid);
                }
            }
            Change::Gone(aid, connection) => self.remove(state, gateway, &aid, connection),
        }
    }

    /// Takes a connection in, unless it is known.
    pub(super) fn place(
        &self,
        state: &mut State,
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
        of_agent.insert(at, Known { gateway: gateway.clone(), announced });
        self.show(aid, of_agent);
        true
    }

    pub(super) fn remove(&self, state: &mut State, gateway: &Arc<str>, aid: &Aid, connection: u64) {
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

    /// Puts what is known of an agent where the services read it.
    fn show(&self, aid: &Aid, of_agent: &[Known]) {
        let long = of_agent.iter().filter(|known| known.announced.long);
        let shown: Arc<[_]> = long.map(|known| known.announced.session.clone()).collect();
        let mut sessions = self.sessions.write();
        if shown.is_empty() {
            sessions.remove(aid);
        } else {
            sessions.insert(aid.clone(), shown);
        }
    }

    /// A gateway is gone, with everybody who was connected to it.
    pub(super) fn forget(&self, name: &Arc<str>) {
        let mut state = self.state.lock();
        let Some(gateway) = state.gateways.remove(name) else { return };
        tracing::info!(gateway = %name, connections = gateway.connections.len(), "gateway {name} is gone");
        for (connection, aid) in gateway.connections {
            self.remove(&mut state, name, &aid, connection);
        }
    }

    fn tell(&self, arrived: &[Aid]) {
        for listener in self.listeners.read().iter() {
            arrived.iter().for_each(listener);
        }
    }

    /// Takes a list over, and what was said while it was read.
    pub(super) fn install(&self, name: &Arc<str>, number: u64, connections: List) {
        let mut arrived = Vec::new();
        let mut state = self.state.lock();
        let gateway = state.gateways.entry(name.clone()).or_default();
        gateway.number = Some(number);
        gateway.heard = Instant::now();
        let missed = std::mem::take(&mut gateway.missed);
        let gone: Vec<(u64, Aid)> = gateway
            .connections
            .iter()
            .filter(|(connection, _)| !connections.contains_key(connection))
            .map(|(connection, aid)| (*connection, aid.clone()))
            .collect();
        for (connection, aid) in gone {
            self.remove(&mut state, name, &aid, connection);
        }
        for (aid, announced) in connections.into_values() {
            self.apply(&mut state, name, Change::Here(aid, announced), &mut arrived);
        }
        for note in missed {
            self.take(&mut state, note, &mut arrived);
        }
        drop(state);
        self.tell(&arrived);
    }

    pub(super) fn silent(&self) -> Vec<Arc<str>> {
        let state = self.state.lock();
        let is_silent =
            |(name, gateway): &(&Arc<str>, &Gateway)| **name != self.own && gateway.heard.elapsed() > LEASE;
        state.gateways.iter().filter(is_silent).map(|(name, _)| name.clone()).collect()
    }
}
