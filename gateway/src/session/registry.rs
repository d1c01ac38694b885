//! Who is connected to this gateway, and who has to make space.

use super::outbox::{CloseReason, Outbox};
use super::rules::{self, Eviction, Place};
use super::signer::KnownSigner;
use crate::limits::AgentLimit;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use services::kernel::{
    Aid, AnnouncedSession, Audience, Delivery, Presence, PresentSession, RpcError, Session, Subscription,
};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// One socket, as others see it.
pub struct Link {
    pub id: u64,
    pub address: IpAddr,
    pub outbox: Outbox,
    pub in_flight: AtomicU32,
    /// Whether `event/meta.capabilities_changed` was asked for.
    pub wants_capabilities: AtomicBool,
    /// Its turn to go has come: it gets no new calls answered, and is closed when the others are.
    pub leaves: AtomicBool,
    bound: OnceLock<Bound>,
}

/// What `auth.connect` bound to a socket.
pub struct Bound {
    pub session: Session,
    pub kind: Kind,
    pub delivery: Delivery,
    pub extra_info: Option<Box<RawValue>>,
    /// Orders the connections of an agent; given when it comes in.
    pub since_ms: i64,
    /// The connections that had to go for it; given then, too.
    pub instead_of: Vec<u64>,
    /// Has the agent's events come to this process.
    pub _subscription: Option<Subscription>,
    pub limit: Arc<AgentLimit>,
    /// The agent's current certificate, once a signed call needed it.
    pub signer: KnownSigner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Long,
    /// Closed after so many milliseconds without a call; `None` never.
    Short(Option<u64>),
}

impl Link {
    pub fn new(id: u64, address: IpAddr, outbox: Outbox) -> Link {
        Link {
            id,
            address,
            outbox,
            in_flight: AtomicU32::new(0),
            wants_capabilities: AtomicBool::new(false),
            leaves: AtomicBool::new(false),
            bound: OnceLock::new(),
        }
    }

    pub fn bound(&self) -> Option<&Bound> {
        self.bound.get()
    }

    /// Events are for long connections only.
    pub fn is_long(&self) -> bool {
        self.bound().is_some_and(|bound| bound.kind == Kind::Long)
    }
}

pub struct Registry {
    links: Mutex<Links>,
    presence: Presence,
}

#[derive(Default)]
struct Links {
    all: HashMap<u64, Arc<Link>>,
    /// Authenticated ones, oldest first.
    agents: HashMap<Aid, Vec<Arc<Link>>>,
}

impl Bound {
    /// The connection, as other gateways hear of it.
    fn announced(&self) -> AnnouncedSession {
        let Session { device, slot, address, connection, .. } = &self.session;
        AnnouncedSession {
            session: PresentSession {
                connection: *connection,
                device: device.clone(),
                slot: slot.clone(),
                address: *address,
                delivery: self.delivery.clone(),
            },
            long: self.kind == Kind::Long,
            since_ms: self.since_ms,
            extra_info: self.extra_info.clone(),
            instead_of: self.instead_of.clone(),
        }
    }
}

/// The connections of an agent to this gateway and to others, oldest first.
fn merged<'a>(here: &'a [Arc<Link>], elsewhere: &'a [Arc<AnnouncedSession>]) -> Vec<Place<'a>> {
    let here = here.iter().filter_map(|link| Some(Place::of(link.id, link.bound()?)));
    let mut places: Vec<Place<'a>> =
        here.chain(elsewhere.iter().map(|announced| Place::from(&**announced))).collect();
    if !elsewhere.is_empty() {
        places.sort_unstable_by_key(|place| (place.since_ms, place.id));
    }
    places
}

impl Registry {
    pub fn new(presence: Presence) -> Registry {
        Registry { links: Mutex::default(), presence }
    }

    pub fn add(&self, link: &Arc<Link>) {
        self.links.lock().all.insert(link.id, link.clone());
    }

    /// Lets an authenticated connection in, after making space for it. Those who have to go and are connected elsewhere are
    /// sent away by their own gateway, when it hears of the newcomer.
    pub fn enter(&self, link: &Arc<Link>, mut bound: Bound) -> Result<(), RpcError> {
        let mut links = self.links.lock();
        let elsewhere = self.presence.elsewhere(&bound.session.aid);
        let present = links.agents.get(&bound.session.aid).map_or(&[][..], Vec::as_slice);
        let mut places = merged(present, &elsewhere);
        // Clocks of gateways differ; who comes later is later all the same.
        bound.since_ms = places.last().map_or(0, |last| last.since_ms + 1).max(bound.session.connected_at_ms);
        if !elsewhere.is_empty() {
            // Who has to go elsewhere, and has not gone yet, does not count any more.
            let leaving = rules::settle(&places);
            places.retain(|place| !leaving.iter().any(|leaving| leaving.place.id == place.id));
        }
        let newcomer = Place::of(link.id, &bound);
        let evictions = rules::admit(&places, &newcomer)?;
        for eviction in &evictions {
            if let Some(victim) = present.iter().find(|link| link.id == eviction.connection) {
                self.send_away(victim, eviction, &newcomer);
            }
        }
        bound.instead_of = evictions.iter().map(|eviction| eviction.connection).collect();
        self.presence.admit(&bound.session.aid, bound.announced());
        let aid = bound.session.aid.clone();
        let taken = links.agents.entry(aid).or_default();
        taken.retain(|link| !evictions.iter().any(|eviction| eviction.connection == link.id));
        // Set before the link is listed: whoever finds a link under its agent finds it bound.
        let _ = link.bound.set(bound);
        taken.push(link.clone());
        Ok(())
    }

    /// Somebody may have come to another gateway at the same moment as to this one. The same rules over the same list give
    /// the same answer everywhere, and each gateway sends its own away.
    pub fn settle(&self, aid: &Aid) {
        let mut links = self.links.lock();
        let Some(present) = links.agents.get_mut(aid) else { return };
        let elsewhere = self.presence.elsewhere(aid);
        let mut gone = Vec::new();
        for rules::Leaving { place, why } in rules::settle(&merged(present, &elsewhere)) {
            let Some(victim) = present.iter().find(|link| link.id == place.id) else { continue };
            match why {
                rules::Why::Evicted(eviction, newcomer) => self.send_away(victim, &eviction, &newcomer),
                rules::Why::TooMany(close_reason) => {
                    victim.outbox.close(close_reason);
                    self.presence.leave(aid, victim.id);
                }
            }
            gone.push(victim.id);
        }
        present.retain(|link| !gone.contains(&link.id));
        if present.is_empty() {
            links.agents.remove(aid);
        }
    }

    fn send_away(&self, victim: &Link, eviction: &Eviction, newcomer: &Place<'_>) {
        victim.outbox.close(eviction.close_reason(victim.bound(), newcomer));
        if let Some(bound) = victim.bound() {
            self.presence.leave(&bound.session.aid, victim.id);
        }
    }

    pub fn leave(&self, link: &Link) {
        let mut links = self.links.lock();
        links.all.remove(&link.id);
        let Some(bound) = link.bound() else { return };
        let aid = &bound.session.aid;
        if let Some(of_agent) = links.agents.get_mut(aid) {
            of_agent.retain(|other| other.id != link.id);
            if of_agent.is_empty() {
                links.agents.remove(aid);
            }
        }
        self.presence.leave(aid, link.id);
    }

    /// The long connections an event is for.
    pub fn audience(&self, to: &Audience) -> Vec<Arc<Link>> {
        let aid = match to {
            Audience::Agent(aid)
            | Audience::Instance { aid, .. }
            | Audience::Connection { aid, .. }
            | Audience::Others { aid, .. } => aid,
            Audience::Gateways => return Vec::new(),
        };
        let fits = |link: &Arc<Link>| {
            let Some(bound) = link.bound().filter(|bound| bound.kind == Kind::Long) else { return false };
            match to {
                Audience::Agent(_) | Audience::Gateways => true,
                Audience::Instance { device, slot, .. } => {
                    device.as_ref().is_none_or(|device| bound.session.device == *device)
                        && slot.as_ref().is_none_or(|slot| bound.session.slot.key() == slot.key())
                }
                Audience::Connection { connection, .. } => link.id == *connection,
                Audience::Others { connection, .. } => link.id != *connection,
            }
        };
        let links = self.links.lock();
        links
            .agents
            .get(aid)
            .map_or_else(Vec::new, |of_agent| of_agent.iter().filter(|l| fits(l)).cloned().collect())
    }

    /// Every connection of an agent, long and short.
    pub fn of_agent(&self, aid: &Aid) -> Vec<Arc<Link>> {
        self.links.lock().agents.get(aid).cloned().unwrap_or_default()
    }

    pub fn agents_with_short(&self) -> Vec<Aid> {
        let links = self.links.lock();
        let short = links.agents.iter().filter(|(_, of_agent)| of_agent.iter().any(|link| !link.is_long()));
        short.map(|(aid, _)| aid.clone()).collect()
    }

    /// Everybody who has a connection here.
    pub fn agents(&self) -> Vec<Aid> {
        self.links.lock().agents.keys().cloned().collect()
    }

    pub fn all(&self) -> Vec<Arc<Link>> {
        self.links.lock().all.values().cloned().collect()
    }
}

/// A close reason that says why: clients that get it know not to come back by themselves.
pub fn disconnect(code: u16, reason: &str, detail: &Value) -> CloseReason {
    let params = json!({ "code": code, "reason": reason, "detail": detail }).to_string();
    let event = Utf8Bytes::from(crate::frame::notification("event/gateway.disconnect", &params));
    CloseReason { code, reason: reason.to_owned(), event: Some(event) }
}
