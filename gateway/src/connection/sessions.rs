//! Who is connected to this gateway, and who is evicted for whom.

use super::eviction::{self, Eviction, LeaveReason, LeavingSession, SessionView};
use super::outbox_budget::AgentOutboxes;
use super::recent_revocations::RecentRevocations;
use super::{CloseReason, Connection, ConnectionKind, ConnectionOutbox, OpenSession, OutboxBudget, relief};
use kernel::{Aid, AnnouncedSession, Audience, Presence, RpcError, codes};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub struct Sessions {
    connections: Arc<Mutex<Connections>>,
    presence: Presence,
    budget: Arc<OutboxBudget>,
    next_connection: AtomicU64,
}

/// How many there are on this gateway.
pub struct SessionCounts {
    /// Sockets, with a session or not.
    pub connections: usize,
    /// Agents with a session.
    pub agents: usize,
    pub long: usize,
    pub short: usize,
}

#[derive(Default)]
struct Connections {
    all: HashMap<u64, Arc<Connection>>,
    /// Those with a session, oldest first.
    agents: HashMap<Aid, Vec<Arc<Connection>>>,
    revoked: RecentRevocations,
}

impl Sessions {
    /// `first_connection` is where the ids of connections begin: they are unique over all gateways of a domain.
    pub fn new(presence: Presence, budget: OutboxBudget, first_connection: u64) -> Sessions {
        let connections: Arc<Mutex<Connections>> = Arc::default();
        let known = Arc::downgrade(&connections);
        budget.relieved_by(move |budget, overflow| {
            let Some(connections) = known.upgrade() else { return };
            // Those that are evicted are in no list of an agent any more, and may hold much until they are closed.
            let all: Vec<Arc<Connection>> = connections.lock().all.values().cloned().collect();
            relief::relieve(&all, budget, overflow);
        });
        Sessions {
            connections,
            presence,
            budget: Arc::new(budget),
            next_connection: AtomicU64::new(first_connection),
        }
    }

    /// Adds a new socket.
    pub fn connect(&self, address: IpAddr) -> Arc<Connection> {
        self.add(self.next_connection.fetch_add(1, Ordering::Relaxed), address)
    }

    pub(super) fn add(&self, id: u64, address: IpAddr) -> Arc<Connection> {
        let outbox = ConnectionOutbox::new(self.budget.clone());
        let connection = Arc::new(Connection::new(id, address, outbox));
        self.connections.lock().all.insert(id, connection.clone());
        connection
    }

    /// Opens a session on a connection, after evicting those that it takes the quota of. Evicted ones that are connected to
    /// another gateway are closed by it, when it learns of this session.
    pub fn open(&self, connection: &Arc<Connection>, mut open: OpenSession) -> Result<(), RpcError> {
        let mut connections = self.connections.lock();
        // Under the same lock that a revocation takes: it finds the session, or the session finds it.
        if connections.revoked.has_ended(&open.session.aid, open.tokens_revoked_at) {
            return Err(RpcError::new(codes::TOKEN_INVALID, "token: it was revoked"));
        }
        let elsewhere = self.presence.elsewhere(&open.session.aid);
        let present = connections.agents.get(&open.session.aid).map_or(&[][..], Vec::as_slice);
        let mut views = merged(present, &elsewhere);
        // Clocks of gateways differ; the one that comes later has to be later all the same.
        open.since_ms = views.last().map_or(0, |last| last.since_ms + 1).max(open.session.connected_at_ms);
        if !elsewhere.is_empty() {
            // Those that are evicted from another gateway, and not closed yet, do not count any more.
            let leaving = eviction::settle(&views);
            views.retain(|view| !leaving.iter().any(|leaving| leaving.session.id == view.id));
        }
        let newcomer = SessionView::of(connection.id, &open);
        let evictions = eviction::admit(&views, &newcomer)?;
        for eviction in &evictions {
            if let Some(evicted) = present.iter().find(|other| other.id == eviction.connection) {
                self.evict(evicted, eviction, &newcomer);
            }
        }
        open.instead_of = evictions.iter().map(|eviction| eviction.connection).collect();
        // The oldest one is counted with those that were evicted before it.
        let outboxes = present.first().and_then(|oldest| oldest.outbox.agent());
        connection.outbox.join(&outboxes.unwrap_or_else(|| Arc::new(AgentOutboxes::default())));
        self.presence.admit(&open.session.aid, open.announced());
        let of_agent = connections.agents.entry(open.session.aid.clone()).or_default();
        of_agent.retain(|other| !evictions.iter().any(|eviction| eviction.connection == other.id));
        // Set before the connection is listed: every connection that is found under its agent has a session.
        let _ = connection.session.set(open);
        of_agent.push(connection.clone());
        Ok(())
    }

    /// A session may have been opened on another gateway at the same moment as one here. The same rules over the same list
    /// give the same result on every gateway, and each closes its own connections.
    pub fn settle(&self, aid: &Aid) {
        let mut connections = self.connections.lock();
        let Some(present) = connections.agents.get_mut(aid) else { return };
        let elsewhere = self.presence.elsewhere(aid);
        let mut gone = Vec::new();
        for LeavingSession { session, why } in eviction::settle(&merged(present, &elsewhere)) {
            let Some(leaving) = present.iter().find(|other| other.id == session.id) else { continue };
            match why {
                LeaveReason::Evicted(eviction, newcomer) => self.evict(leaving, &eviction, &newcomer),
                LeaveReason::Refused(close_reason) => {
                    leaving.outbox.close(close_reason);
                    self.presence.leave(aid, leaving.id);
                }
            }
            gone.push(leaving.id);
        }
        present.retain(|other| !gone.contains(&other.id));
        if present.is_empty() {
            connections.agents.remove(aid);
        }
    }

    /// Closes the connections of an agent that were opened with a token from before this revocation, and refuses those that are
    /// about to be opened with one.
    pub fn tokens_revoked(&self, aid: &Aid, revoked_at: i64) {
        let mut connections = self.connections.lock();
        connections.revoked.add(aid, revoked_at);
        for connection in connections.agents.get(aid).into_iter().flatten() {
            let before = |open: &OpenSession| open.tokens_revoked_at.unwrap_or(0) < revoked_at;
            if connection.session().is_some_and(before) {
                let reason = CloseReason::disconnect(4001, "tokens_revoked", &json!({ "aid": aid }));
                connection.outbox.close(reason);
            }
        }
    }

    fn evict(&self, evicted: &Connection, eviction: &Eviction, newcomer: &SessionView<'_>) {
        evicted.outbox.close(eviction.close_reason(evicted.session(), newcomer));
        if let Some(open) = evicted.session() {
            self.presence.leave(&open.session.aid, evicted.id);
        }
    }

    /// Settles each time that a session was opened on another gateway, for as long as this gateway runs.
    pub fn listen(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.presence.on_arrival_elsewhere(move |aid| {
            if let Some(sessions) = weak.upgrade() {
                sessions.settle(aid);
            }
        });
    }

    /// Long sessions on all gateways, as far as this one knows.
    pub fn present(&self) -> usize {
        self.presence.count()
    }

    /// Removes a connection, and its session if it has one.
    pub fn leave(&self, connection: &Connection) {
        let mut connections = self.connections.lock();
        connections.all.remove(&connection.id);
        let Some(open) = connection.session() else { return };
        let aid = &open.session.aid;
        if let Some(of_agent) = connections.agents.get_mut(aid) {
            of_agent.retain(|other| other.id != connection.id);
            if of_agent.is_empty() {
                connections.agents.remove(aid);
            }
        }
        self.presence.leave(aid, connection.id);
    }

    /// Waits until other gateways can know of the sessions that were opened here.
    pub async fn announced(&self) {
        self.presence.announced().await;
    }

    /// The long connections an event is for.
    pub fn audience(&self, to: &Audience) -> Vec<Arc<Connection>> {
        let aid = match to {
            Audience::Agent(aid)
            | Audience::Instance { aid, .. }
            | Audience::Connection { aid, .. }
            | Audience::Others { aid, .. }
            | Audience::OtherInstances { aid, .. } => aid,
            Audience::Gateways => return Vec::new(),
        };
        let fits = |connection: &Arc<Connection>| {
            let long = connection.session().filter(|open| open.kind == ConnectionKind::Long);
            let Some(open) = long else { return false };
            match to {
                Audience::Agent(_) | Audience::Gateways => true,
                Audience::Instance { device, slot, .. } => {
                    device.as_ref().is_none_or(|device| open.session.device == *device)
                        && slot.as_ref().is_none_or(|slot| open.session.slot.key() == slot.key())
                }
                Audience::Connection { connection: id, .. } => connection.id == *id,
                Audience::Others { connection: id, .. } => connection.id != *id,
                Audience::OtherInstances { device, slot, .. } => {
                    open.session.device != *device || open.session.slot.key() != slot.key()
                }
            }
        };
        let connections = self.connections.lock();
        let Some(of_agent) = connections.agents.get(aid) else { return Vec::new() };
        of_agent.iter().filter(|connection| fits(connection)).cloned().collect()
    }

    /// Every connection of an agent, long and short.
    pub fn of_agent(&self, aid: &Aid) -> Vec<Arc<Connection>> {
        self.connections.lock().agents.get(aid).cloned().unwrap_or_default()
    }

    /// The sessions of an agent on all gateways, long and short, oldest first, as far as this gateway knows.
    pub fn everywhere(&self, aid: &Aid) -> Vec<AnnouncedSession> {
        let (here, elsewhere) = (self.of_agent(aid), self.presence.elsewhere(aid));
        let here = here.iter().filter_map(|connection| Some(connection.session()?.announced()));
        let mut all: Vec<AnnouncedSession> =
            here.chain(elsewhere.iter().map(|announced| AnnouncedSession::clone(announced))).collect();
        all.sort_by_key(|announced| (announced.since_ms, announced.session.connection));
        all
    }

    /// The address of each session.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.connections.lock().agents.values().flatten().map(|connection| connection.address).collect()
    }

    pub fn counts(&self) -> SessionCounts {
        let connections = self.connections.lock();
        let sessions = || connections.agents.values().flatten();
        let long = sessions().filter(|connection| connection.is_long()).count();
        SessionCounts {
            connections: connections.all.len(),
            agents: connections.agents.len(),
            long,
            short: sessions().count() - long,
        }
    }

    pub fn agents_with_short(&self) -> Vec<Aid> {
        let connections = self.connections.lock();
        let short = connections.agents.iter().filter(|(_, of_agent)| of_agent.iter().any(|c| !c.is_long()));
        short.map(|(aid, _)| aid.clone()).collect()
    }

    /// Every agent that has a session here.
    pub fn agents(&self) -> Vec<Aid> {
        self.connections.lock().agents.keys().cloned().collect()
    }

    /// Every connection, with a session or not.
    pub fn all(&self) -> Vec<Arc<Connection>> {
        self.connections.lock().all.values().cloned().collect()
    }

    /// What all outboxes hold together.
    pub fn outbox_bytes(&self) -> usize {
        self.budget.used()
    }
}

/// The sessions of an agent on this gateway and on others, oldest first.
fn merged<'a>(here: &'a [Arc<Connection>], elsewhere: &'a [Arc<AnnouncedSession>]) -> Vec<SessionView<'a>> {
    let here =
        here.iter().filter_map(|connection| Some(SessionView::of(connection.id, connection.session()?)));
    let mut views: Vec<SessionView<'a>> =
        here.chain(elsewhere.iter().map(|announced| SessionView::from(&**announced))).collect();
    if !elsewhere.is_empty() {
        views.sort_unstable_by_key(|view| (view.since_ms, view.id));
    }
    views
}
