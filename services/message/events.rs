//! What the recipients, their other devices and the senders are told, after the commit.

use super::ledger::{Bell, Draft, Recall};
use super::rows::{self, Nearness};
use super::stored_message::{self, Head, Key, Kind, Place, StoredMessage};
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
    let message = &bell.message;
    for (place, device) in message.places.iter().zip(&bell.devices) {
        let owner = if place.own { &message.from } else { &message.to };
        if !presence.may_be_online(owner) {
            continue;
        }
        let to = match (&bell.seat, message.kind) {
            (Some(seat), _) => Audience::Connection { aid: owner.clone(), connection: seat.connection },
            (None, Kind::Queue) => continue,
            (None, _) => Audience::Instance { aid: owner.clone(), device: Some(device.clone()), slot: None },
        };
        let trace = bell.trace.as_ref().and_then(|trace| rows::trace_member(trace, message.at));
        tell(bus, to, message, place, device, trace);
    }
}

/// The same for one device, when it may not have heard the first time.
pub(super) fn ring_again(bus: &Bus, message: &StoredMessage, inbox: i64, device: &DeviceId) {
    let Some(place) = message.place(inbox) else { return };
    let owner = if place.own { &message.from } else { &message.to };
    let to = Audience::Instance { aid: owner.clone(), device: Some(device.clone()), slot: None };
    tell(bus, to, message, place, device, None);
}

fn tell(
    bus: &Bus,
    to: Audience,
    message: &StoredMessage,
    place: &Place,
    device: &DeviceId,
    trace: Option<Box<RawValue>>,
) {
    let (method, params) = match message.kind {
        Kind::V2 => (V2_RECEIVED, doorbell(message, place, device, trace)),
        Kind::Recall => (RECALLED, recalled(message, place, device)),
        Kind::Plain | Kind::V1 | Kind::Queue => (RECEIVED, message.plain_row(place, device, None, trace)),
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
    message: &StoredMessage,
    place: &Place,
    device: &DeviceId,
    trace: Option<Box<RawValue>>,
) -> Option<Box<RawValue>> {
    let bell = Doorbell {
        seq: place.seq,
        message_id: &message.message_id,
        from_aid: &message.from,
        sender_aid: &message.from,
        to: &message.to,
        device_id: device,
        sender_device_id: &message.device,
        t_server: message.at,
        direction: place.own.then_some("outbound_sync"),
        near: place.near.into(),
        trace,
    };
    to_raw_value(&bell).ok()
}

fn recalled(message: &StoredMessage, place: &Place, device: &DeviceId) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Payload {
        message_ids: Vec<String>,
    }
    let Payload { message_ids } = serde_json::from_str(message.body.get()).ok()?;
    to_raw_value(&json!({
        "from": message.from,
        "to": message.to,
        "message_ids": message_ids,
        "timestamp": message.at,
        "device_id": device,
        "seq": place.seq,
        "message_id": message.message_id,
        "tombstone_message_id": message.message_id,
    }))
    .ok()
}

/// The message that says which messages were taken back, for every inbox that had one of them.
pub(super) fn notice(
    recall: &Recall,
    to: &Aid,
    message_id: &str,
    message_ids: &[String],
    messages: &[&Arc<StoredMessage>],
) -> Draft {
    let places: BTreeMap<i64, Place> =
        messages.iter().flat_map(|message| &message.places).map(|place| (place.inbox, *place)).collect();
    let message = StoredMessage {
        id: 0,
        key: Key::new(&recall.from, message_id),
        from: recall.from.clone(),
        device: recall.device.clone(),
        to: to.clone(),
        message_id: message_id.to_owned(),
        at: recall.now,
        kind: Kind::Recall,
        places: places.into_values().collect(),
        head: Head { kind: Some(stored_message::RECALLED.to_owned()), ..Head::default() },
        body: stored_message::recall_payload(message_ids, recall.now, &recall.from),
        copies: Vec::new(),
        recalled_at: None,
    };
    let device = |place: &Place| recall.devices.get(&place.inbox).cloned().unwrap_or_default();
    let devices = message.places.iter().map(device).collect();
    Draft { message, devices, queue: None, trace: None }
}
