//! What the recipients, their other devices and the senders are told, after the commit.

use super::ledger::{Bell, Draft, Recall};
use super::letter::{self, Head, Key, Kind, Letter, Place};
use super::rows::{self, Nearness};
use crate::kernel::{Aid, Audience, Bus, DeviceId, Event, Presence};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const RECEIVED: &str = "event/message.received";
pub(super) const V2_RECEIVED: &str = "event/peer.v2.message_received";
pub(super) const ACK: &str = "event/message.ack";
pub(super) const RECALLED: &str = "event/message.recalled";

/// Tells each device that got a number what it got.
pub(super) fn ring(bus: &Bus, presence: &Presence, bell: &Bell) {
    let letter = &bell.letter;
    for (place, device) in letter.places.iter().zip(&bell.devices) {
        let owner = if place.own { &letter.from } else { &letter.to };
        if !presence.may_be_online(owner) {
            continue;
        }
        let to = match (&bell.seat, letter.kind) {
            (Some(seat), _) => Audience::Connection { aid: owner.clone(), connection: seat.connection },
            (None, Kind::Queue) => continue,
            (None, _) => Audience::Instance { aid: owner.clone(), device: Some(device.clone()), slot: None },
        };
        let trace = bell.trace.as_ref().and_then(|trace| rows::trace_member(trace, letter.at));
        tell(bus, to, letter, place, device, trace);
    }
}

/// The same for one device, when it may not have heard the first time.
pub(super) fn ring_again(bus: &Bus, letter: &Letter, inbox: i64, device: &DeviceId) {
    let Some(place) = letter.place(inbox) else { return };
    let owner = if place.own { &letter.from } else { &letter.to };
    let to = Audience::Instance { aid: owner.clone(), device: Some(device.clone()), slot: None };
    tell(bus, to, letter, place, device, None);
}

fn tell(
    bus: &Bus,
    to: Audience,
    letter: &Letter,
    place: &Place,
    device: &DeviceId,
    trace: Option<Box<RawValue>>,
) {
    let (method, params) = match letter.kind {
        Kind::V2 => (V2_RECEIVED, doorbell(letter, place, device, trace)),
        Kind::Recall => (RECALLED, recalled(letter, place, device)),
        Kind::Plain | Kind::V1 | Kind::Queue => (RECEIVED, letter.plain_row(place, device, None, trace)),
    };
    if let Some(params) = params {
        bus.publish(&Event { to, method: method.to_owned(), params });
    }
}

#[derive(Serialize)]
struct Doorbell<'a> {
    seq: i64,
    message_id: &'a str,
    from_aid: &'a Aid,
    sender_aid: &'a Aid,
    to: &'a Aid,
    device_id: &'a DeviceId,
    sender_device_id: &'a DeviceId,
    t_server: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    #[serde(flatten)]
    near: Nearness,
    #[serde(rename = "_trace", skip_serializing_if = "Option::is_none")]
    trace: Option<Box<RawValue>>,
}

/// A bell without content: whoever hears it pulls.
pub(super) fn doorbell(
    letter: &Letter,
    place: &Place,
    device: &DeviceId,
    trace: Option<Box<RawValue>>,
) -> Option<Box<RawValue>> {
    let bell = Doorbell {
        seq: place.seq,
        message_id: &letter.message_id,
        from_aid: &letter.from,
        sender_aid: &letter.from,
        to: &letter.to,
        device_id: device,
        sender_device_id: &letter.device,
        t_server: letter.at,
        direction: place.own.then_some("outbound_sync"),
        near: place.near.into(),
        trace,
    };
    to_raw_value(&bell).ok()
}

fn recalled(letter: &Letter, place: &Place, device: &DeviceId) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Payload {
        message_ids: Vec<String>,
    }
    let Payload { message_ids } = serde_json::from_str(letter.body.get()).ok()?;
    to_raw_value(&json!({
        "from": letter.from,
        "to": letter.to,
        "message_ids": message_ids,
        "timestamp": letter.at,
        "device_id": device,
        "seq": place.seq,
        "message_id": letter.message_id,
        "tombstone_message_id": letter.message_id,
    }))
    .ok()
}

/// The letter that says which letters were taken back, for every inbox that had one of them.
pub(super) fn notice(
    recall: &Recall,
    to: &Aid,
    message_id: &str,
    message_ids: &[String],
    letters: &[&Arc<Letter>],
) -> Draft {
    let places: BTreeMap<i64, Place> =
        letters.iter().flat_map(|letter| &letter.places).map(|place| (place.inbox, *place)).collect();
    let letter = Letter {
        id: 0,
        key: Key::new(&recall.from, message_id),
        from: recall.from.clone(),
        device: recall.device.clone(),
        to: to.clone(),
        message_id: message_id.to_owned(),
        at: recall.now,
        kind: Kind::Recall,
        places: places.into_values().collect(),
        head: Head { kind: Some(letter::RECALLED.to_owned()), ..Head::default() },
        body: letter::recall_payload(message_ids, recall.now, &recall.from),
        copies: Vec::new(),
        recalled_at: None,
    };
    let device = |place: &Place| recall.devices.get(&place.inbox).cloned().unwrap_or_default();
    let devices = letter.places.iter().map(device).collect();
    Draft { letter, devices, queue: None, trace: None }
}
