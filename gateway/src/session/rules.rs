//! The rules of who may stay: quotas and who has to go for whom, over all gateways of a domain.

use super::outbox::CloseReason;
use super::registry::{Bound, Kind, disconnect};
use serde_json::json;
use serde_json::value::RawValue;
use services::kernel::{AnnouncedSession, Delivery, DeviceId, RpcError, SlotId, codes};

/// Long connections of an agent on one device, devices with long connections, and short connections per slot.
const SLOTS: usize = 10;
const DEVICES: usize = 10;
const SHORT: usize = 10;

/// A connection, as the rules see it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub id: u64,
    pub since_ms: i64,
    device: &'a DeviceId,
    slot: &'a SlotId,
    long: bool,
    delivery: &'a Delivery,
    extra_info: Option<&'a RawValue>,
    instead_of: &'a [u64],
}

impl<'a> Place<'a> {
    pub fn of(id: u64, bound: &'a Bound) -> Place<'a> {
        Place {
            id,
            since_ms: bound.since_ms,
            device: &bound.session.device,
            slot: &bound.session.slot,
            long: bound.kind == Kind::Long,
            delivery: &bound.delivery,
            extra_info: bound.extra_info.as_deref(),
            instead_of: &bound.instead_of,
        }
    }

    fn same_slot(&self, other: &Place<'_>) -> bool {
        self.device == other.device && self.slot.key() == other.slot.key()
    }
}

impl<'a> From<&'a AnnouncedSession> for Place<'a> {
    fn from(announced: &'a AnnouncedSession) -> Place<'a> {
        Place {
            id: announced.session.connection,
            since_ms: announced.since_ms,
            device: &announced.session.device,
            slot: &announced.session.slot,
            long: announced.long,
            delivery: &announced.session.delivery,
            extra_info: announced.extra_info.as_deref(),
            instead_of: &announced.instead_of,
        }
    }
}

/// Who has to go for the newcomer, and what they are told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Eviction {
    pub connection: u64,
    code: u16,
    reason: &'static str,
    quota: Option<(&'static str, usize)>,
}

impl Eviction {
    pub fn close_reason(&self, victim: Option<&Bound>, newcomer: &Place<'_>) -> CloseReason {
        let mut detail = json!({
            "evicted_by": {
                "device_id": newcomer.device,
                "slot_id": newcomer.slot,
                "extra_info": newcomer.extra_info.map_or(json!({}), |info| json!(info)),
            },
        });
        if let Some(bound) = victim {
            detail["aid"] = json!(bound.session.aid);
            detail["device_id"] = json!(bound.session.device);
            detail["slot_id"] = json!(bound.session.slot);
        }
        if let Some((quota_kind, limit)) = self.quota {
            detail["quota_kind"] = json!(quota_kind);
            detail["limit"] = json!(limit);
        }
        disconnect(self.code, self.reason, &detail)
    }
}

/// Whether a newcomer may come in, and who has to go for it. `present` is oldest first.
pub(super) fn admit(present: &[Place<'_>], newcomer: &Place<'_>) -> Result<Vec<Eviction>, RpcError> {
    if !newcomer.long {
        let short = present.iter().filter(|place| !place.long && place.same_slot(newcomer)).count();
        if short >= SHORT {
            return Err(RpcError::new(codes::SHORT_CAPACITY, "short_connection_capacity_exceeded")
                .with("limit", SHORT));
        }
        agree(present.iter(), newcomer)?;
        return Ok(Vec::new());
    }

    let long: Vec<&Place<'_>> = present.iter().filter(|place| place.long).collect();
    let mut evictions = Vec::new();
    for place in long.iter().filter(|place| place.same_slot(newcomer)) {
        evictions.push(evicted(place, newcomer));
    }
    let gone = |evictions: &[Eviction], id: u64| evictions.iter().any(|eviction| eviction.connection == id);
    let on_device: Vec<_> =
        long.iter().filter(|place| place.device == newcomer.device && !gone(&evictions, place.id)).collect();

    // A device without slots is one instance: it shares the device with nobody.
    let mixed = on_device.iter().any(|place| place.slot.is_empty() != newcomer.slot.key().is_empty());
    if !newcomer.device.is_empty() && mixed {
        let sentence =
            "device_singleton_conflict: another connection of this device uses it with a slot, or without";
        return Err(RpcError::new(codes::IDENTITY_CONFLICT, sentence));
    }
    if on_device.len() >= SLOTS {
        evictions.push(evicted(on_device[0], newcomer));
    }
    let mut devices: Vec<&DeviceId> = Vec::new();
    for place in &long {
        if !devices.contains(&place.device) {
            devices.push(place.device);
        }
    }
    if !devices.contains(&newcomer.device) && devices.len() >= DEVICES {
        for place in long.iter().filter(|place| place.device == devices[0]) {
            evictions.push(evicted(place, newcomer));
        }
    }
    agree(present.iter().filter(|place| !gone(&evictions, place.id)), newcomer)?;
    Ok(evictions)
}

/// Why it is this one that has to go for the newcomer: what the two have in common says it.
fn evicted(place: &Place<'_>, newcomer: &Place<'_>) -> Eviction {
    let connection = place.id;
    if place.same_slot(newcomer) {
        return Eviction { connection, code: 4009, reason: "replaced_by_new_connection", quota: None };
    }
    let quota = match place.device == newcomer.device {
        true => ("aid_device_slot_quota_exceeded", SLOTS),
        false => ("aid_devices_quota_exceeded", DEVICES),
    };
    Eviction { connection, code: 4015, reason: "long_connection_quota_exceeded", quota: Some(quota) }
}

fn agree<'a>(mut staying: impl Iterator<Item = &'a Place<'a>>, newcomer: &Place<'_>) -> Result<(), RpcError> {
    match staying.find(|place| place.delivery != newcomer.delivery) {
        None => Ok(()),
        Some(_) => Err(RpcError::new(
            codes::IDENTITY_CONFLICT,
            "delivery_mode_conflict: another live connection of this agent uses a different delivery_mode",
        )),
    }
}

/// A connection that has to go although it was let in, because somebody else was let in elsewhere.
pub(super) struct Leaving<'a> {
    pub place: Place<'a>,
    pub why: Why<'a>,
}

pub(super) enum Why<'a> {
    Evicted(Eviction, Place<'a>),
    TooMany(CloseReason),
}

/// Lets everybody in again, oldest first, and gives those who would not be there now: first those who had to go when
/// another one was let in, as its gateway decided, for it may have seen connections that are gone by now.
pub(super) fn settle<'a>(places: &[Place<'a>]) -> Vec<Leaving<'a>> {
    let mut leaving = Vec::new();
    let newcomer_of = |place: &Place<'a>| places.iter().find(|other| other.instead_of.contains(&place.id));
    let mut staying: Vec<Place<'a>> = Vec::new();
    for place in places.iter().filter(|place| place.long) {
        if let Some(newcomer) = newcomer_of(place) {
            let why = Why::Evicted(evicted(place, newcomer), *newcomer);
            leaving.push(Leaving { place: *place, why });
            continue;
        }
        match admit(&staying, place) {
            Ok(evictions) => {
                for eviction in evictions {
                    let Some(at) = staying.iter().position(|place| place.id == eviction.connection) else {
                        continue;
                    };
                    leaving.push(Leaving { place: staying.remove(at), why: Why::Evicted(eviction, *place) });
                }
                staying.push(*place);
            }
            // It comes back by itself and is told the reason in the answer to its `auth.connect`.
            Err(_) => {
                let close_reason = CloseReason::plain(1012, "another connection of this agent came first");
                leaving.push(Leaving { place: *place, why: Why::TooMany(close_reason) });
            }
        }
    }
    let short: Vec<&Place<'a>> = places.iter().filter(|place| !place.long).collect();
    for (at, place) in short.iter().enumerate() {
        if short[..at].iter().filter(|older| older.same_slot(place)).count() >= SHORT {
            let close_reason = CloseReason::plain(4013, "short_connection_capacity_exceeded");
            leaving.push(Leaving { place: **place, why: Why::TooMany(close_reason) });
        }
    }
    leaving
}
