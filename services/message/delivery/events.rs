//! The events that recipients, their other devices and the senders get, after the commit.

use super::rows::Nearness;
use crate::store::stored_message::{InboxEntry, MessageKind, StoredMessage};
use crate::store::write::CommittedMessage;
use kernel::{Aid, Audience, Bus, DeviceId, Event, Presence};
use proto_schemas::requests::message::ForWebhook;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

pub(crate) const RECEIVED: &str = "event/message.received";
pub(crate) const V2_RECEIVED: &str = "event/peer.v2.message_received";
pub(crate) const ACK: &str = "event/message.ack";
pub(crate) const RECALLED: &str = "event/message.recalled";

/// Tells each device whose inbox got the message.
pub(crate) fn publish_committed(bus: &Bus, presence: &Presence, committed: &CommittedMessage) {
    let message = &committed.message;
    for (entry, device) in message.entries.iter().zip(&committed.devices) {
        let owner = if entry.own { &message.from } else { &message.to };
        if !presence.may_be_online(owner) {
            continue;
        }
        let to = match (&committed.session, message.kind) {
            (Some(session), _) => Audience::Connection { aid: owner.clone(), connection: session.connection },
            (None, MessageKind::Queue) => continue,
            (None, _) => Audience::Instance { aid: owner.clone(), device: Some(device.clone()), slot: None },
        };
        let trace = committed.trace.as_ref().and_then(|call| call.member());
        publish(bus, to, message, entry, device, trace);
    }
}

/// Says that a message came for the device of a webhook. A client may have called its device so, too; then nobody listens.
pub(crate) fn tell_webhooks(bus: &Bus, committed: &CommittedMessage) {
    let webhook = DeviceId::webhook();
    for (entry, device) in committed.message.entries.iter().zip(&committed.devices) {
        if *device == webhook {
            let aid = if entry.own { &committed.message.from } else { &committed.message.to };
            bus.signal(&ForWebhook { aid: aid.clone(), seq: entry.seq });
        }
    }
}

/// The same for one device that may have missed it.
pub(crate) fn publish_again(bus: &Bus, message: &StoredMessage, inbox: i64, device: &DeviceId) {
    let Some(entry) = message.entry(inbox) else { return };
    let owner = if entry.own { &message.from } else { &message.to };
    let to = Audience::Instance { aid: owner.clone(), device: Some(device.clone()), slot: None };
    publish(bus, to, message, entry, device, None);
}

fn publish(
    bus: &Bus,
    to: Audience,
    message: &StoredMessage,
    entry: &InboxEntry,
    device: &DeviceId,
    trace: Option<Box<RawValue>>,
) {
    let (method, params) = match message.kind {
        MessageKind::V2 => (V2_RECEIVED, v2_notification(message, entry, device, trace)),
        MessageKind::Recall => (RECALLED, recalled(message, entry, device)),
        MessageKind::Plain | MessageKind::V1 | MessageKind::Queue => {
            (RECEIVED, message.received_params(entry, device, None, trace))
        }
    };
    if let Some(params) = params {
        bus.publish(&Event::with_params(to, method, params));
    }
}

#[derive(Serialize)]
struct V2Notification<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    msg_subtype: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(flatten)]
    near: Nearness,
    #[serde(rename = "_trace", skip_serializing_if = "Option::is_none")]
    trace: Option<Box<RawValue>>,
}

/// It has no content: whoever gets it pulls.
pub(crate) fn v2_notification(
    message: &StoredMessage,
    entry: &InboxEntry,
    device: &DeviceId,
    trace: Option<Box<RawValue>>,
) -> Option<Box<RawValue>> {
    let notification = V2Notification {
        seq: entry.seq,
        message_id: &message.message_id,
        from_aid: &message.from,
        sender_aid: &message.from,
        to: &message.to,
        device_id: device,
        sender_device_id: &message.device,
        t_server: message.at,
        direction: entry.own.then_some("outbound_sync"),
        msg_subtype: message.attributes.msg_subtype.as_deref(),
        content_type: message.attributes.content_type.as_deref(),
        near: entry.near.into(),
        trace,
    };
    to_raw_value(&notification).ok()
}

fn recalled(message: &StoredMessage, entry: &InboxEntry, device: &DeviceId) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct RecalledIds {
        message_ids: Vec<String>,
    }
    let RecalledIds { message_ids } = serde_json::from_str(message.body.get()).ok()?;
    to_raw_value(&json!({
        "from": message.from,
        "to": message.to,
        "message_ids": message_ids,
        "timestamp": message.at,
        "device_id": device,
        "seq": entry.seq,
        "message_id": message.message_id,
        "tombstone_message_id": message.message_id,
    }))
    .ok()
}
