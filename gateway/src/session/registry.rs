//! Who is connected to this door, and who has to make room.

use super::outbox::{Goodbye, Outbox};
use crate::limits::AgentLimit;
use certs::PublicKey;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use services::kernel::{Aid, Audience, Delivery, Presence, RpcError, Seat, Session, codes};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Long connections of an agent on one device, devices with long connections, and short connections per slot.
const SLOTS: usize = 10;
const DEVICES: usize = 10;
const SHORT: usize = 10;

/// One socket, as others see it.
pub struct Link {
    pub id: u64,
    pub address: IpAddr,
    pub outbox: Outbox,
    pub in_flight: AtomicU32,
    /// Whether `event/meta.capabilities_changed` was asked for.
    pub wants_capabilities: AtomicBool,
    bound: OnceLock<Bound>,
}

/// What `auth.connect` bound to a socket.
pub struct Bound {
    pub session: Session,
    pub kind: Kind,
    pub delivery: Delivery,
    pub capabilities: Option<Box<RawValue>>,
    pub extra_info: Option<Box<RawValue>>,
    pub limit: Arc<AgentLimit>,
    /// The agent's current certificate, once a signed call needed it.
    pub signer: Mutex<Option<Arc<Signer>>>,
}

pub struct Signer {
    pub fingerprint: String,
    pub key: PublicKey,
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

/// What a newcomer looks like to the rules.
struct Newcomer<'a> {
    device: &'a str,
    slot_key: &'a str,
    long: bool,
    delivery: &'a Delivery,
}

/// Who has to go for the newcomer, and what they are told.
#[derive(Debug, PartialEq, Eq)]
struct Eviction {
    connection: u64,
    code: u16,
    reason: &'static str,
    quota: Option<(&'static str, usize)>,
}

impl Registry {
    pub fn new(presence: Presence) -> Registry {
        Registry { links: Mutex::default(), presence }
    }

    pub fn add(&self, link: &Arc<Link>) {
        self.links.lock().all.insert(link.id, link.clone());
    }

    /// Lets an authenticated connection in, after making room for it.
    pub fn enter(&self, link: &Arc<Link>, bound: Bound) -> Result<(), RpcError> {
        let mut links = self.links.lock();
        let present = links.agents.get(&bound.session.aid).map_or(&[][..], Vec::as_slice);
        let newcomer = Newcomer {
            device: bound.session.device.as_str(),
            slot_key: bound.session.slot.key(),
            long: bound.kind == Kind::Long,
            delivery: &bound.delivery,
        };
        let evictions = admit(present, &newcomer)?;
        for eviction in &evictions {
            let Some(position) = present.iter().position(|link| link.id == eviction.connection) else {
                continue;
            };
            let victim = &present[position];
            victim.outbox.close(eviction.goodbye(victim, &bound));
            if let Some(seat) = victim.bound() {
                self.presence.leave(&seat.session.aid, victim.id);
            }
        }
        if bound.kind == Kind::Long {
            let Session { aid, device, slot, address, .. } = &bound.session;
            let seat = Seat {
                connection: link.id,
                device: device.clone(),
                slot: slot.clone(),
                address: *address,
                delivery: bound.delivery.clone(),
            };
            self.presence.arrive(aid, seat);
        }
        let aid = bound.session.aid.clone();
        let taken = links.agents.entry(aid).or_default();
        taken.retain(|link| !evictions.iter().any(|eviction| eviction.connection == link.id));
        // Set before the link is listed: whoever finds a link under its agent finds it bound.
        let _ = link.bound.set(bound);
        taken.push(link.clone());
        Ok(())
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
            Audience::Doors => return Vec::new(),
        };
        let fits = |link: &Arc<Link>| {
            let Some(bound) = link.bound().filter(|bound| bound.kind == Kind::Long) else { return false };
            match to {
                Audience::Agent(_) | Audience::Doors => true,
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

    pub fn all(&self) -> Vec<Arc<Link>> {
        self.links.lock().all.values().cloned().collect()
    }
}

impl Eviction {
    fn goodbye(&self, victim: &Link, newcomer: &Bound) -> Goodbye {
        let (code, reason) = (self.code, self.reason);
        let mut detail = json!({
            "evicted_by": {
                "device_id": newcomer.session.device,
                "slot_id": newcomer.session.slot,
                "extra_info": newcomer.extra_info.as_deref().map_or(json!({}), |info| json!(info)),
            },
        });
        if let Some(bound) = victim.bound() {
            detail["aid"] = json!(bound.session.aid);
            detail["device_id"] = json!(bound.session.device);
            detail["slot_id"] = json!(bound.session.slot);
        }
        if let Some((quota_kind, limit)) = self.quota {
            detail["quota_kind"] = json!(quota_kind);
            detail["limit"] = json!(limit);
        }
        disconnect(code, reason, &detail)
    }
}

/// A goodbye that says why: clients that get it know not to come back by themselves.
pub fn disconnect(code: u16, reason: &str, detail: &Value) -> Goodbye {
    let params = json!({ "code": code, "reason": reason, "detail": detail }).to_string();
    let event = Utf8Bytes::from(crate::frame::notification("event/gateway.disconnect", &params));
    Goodbye { code, reason: reason.to_owned(), event: Some(event) }
}

/// The rules of who may stay. `present` is oldest first.
fn admit(present: &[Arc<Link>], newcomer: &Newcomer<'_>) -> Result<Vec<Eviction>, RpcError> {
    let seats: Vec<(&Link, &Bound)> =
        present.iter().filter_map(|link| link.bound().map(|bound| (&**link, bound))).collect();
    let same_slot = |bound: &Bound| {
        bound.session.device.as_str() == newcomer.device && bound.session.slot.key() == newcomer.slot_key
    };
    if !newcomer.long {
        let short = seats.iter().filter(|(_, bound)| bound.kind != Kind::Long && same_slot(bound)).count();
        if short >= SHORT {
            return Err(RpcError::new(codes::SHORT_CAPACITY, "short_connection_capacity_exceeded")
                .with("limit", SHORT));
        }
        agree(seats.iter().map(|(_, bound)| *bound), newcomer)?;
        return Ok(Vec::new());
    }

    let long: Vec<_> = seats.iter().filter(|(_, bound)| bound.kind == Kind::Long).collect();
    let mut evictions = Vec::new();
    for (link, _) in long.iter().filter(|(_, bound)| same_slot(bound)) {
        evictions.push(Eviction {
            connection: link.id,
            code: 4009,
            reason: "replaced_by_new_connection",
            quota: None,
        });
    }
    let gone = |evictions: &[Eviction], id: u64| evictions.iter().any(|eviction| eviction.connection == id);
    let on_device: Vec<_> = long
        .iter()
        .filter(|(link, bound)| {
            bound.session.device.as_str() == newcomer.device && !gone(&evictions, link.id)
        })
        .collect();

    // A device without slots is one instance: it shares the device with nobody.
    let mixed =
        on_device.iter().any(|(_, bound)| bound.session.slot.is_empty() != newcomer.slot_key.is_empty());
    if !newcomer.device.is_empty() && mixed {
        let sentence =
            "device_singleton_conflict: another connection of this device uses it with a slot, or without";
        return Err(RpcError::new(codes::IDENTITY_CONFLICT, sentence));
    }
    if on_device.len() >= SLOTS {
        let quota = Some(("aid_device_slot_quota_exceeded", SLOTS));
        let oldest = on_device[0].0.id;
        evictions.push(Eviction {
            connection: oldest,
            code: 4015,
            reason: "long_connection_quota_exceeded",
            quota,
        });
    }
    let mut devices: Vec<&str> = Vec::new();
    for (_, bound) in &long {
        let device = bound.session.device.as_str();
        if !devices.contains(&device) {
            devices.push(device);
        }
    }
    if !devices.contains(&newcomer.device) && devices.len() >= DEVICES {
        for (link, _) in long.iter().filter(|(_, bound)| bound.session.device.as_str() == devices[0]) {
            let quota = Some(("aid_devices_quota_exceeded", DEVICES));
            let reason = "long_connection_quota_exceeded";
            evictions.push(Eviction { connection: link.id, code: 4015, reason, quota });
        }
    }
    agree(seats.iter().filter(|(link, _)| !gone(&evictions, link.id)).map(|(_, bound)| *bound), newcomer)?;
    Ok(evictions)
}

fn agree<'a>(mut staying: impl Iterator<Item = &'a Bound>, newcomer: &Newcomer<'_>) -> Result<(), RpcError> {
    match staying.find(|bound| bound.delivery != *newcomer.delivery) {
        None => Ok(()),
        Some(_) => Err(RpcError::new(
            codes::IDENTITY_CONFLICT,
            "delivery_mode_conflict: another live connection of this agent uses a different delivery_mode",
        )),
    }
}
