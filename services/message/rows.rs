//! The rows that clients of each generation read of a message.

use super::envelope;
use super::stored_message::{Head, Kind, Near, Place, StoredMessage};
use crate::kernel::{Aid, DeviceId, Trace};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

#[derive(Serialize)]
struct Proximity {
    same_device: bool,
    same_egress_ip: bool,
    same_network: bool,
    basis: &'static str,
    asserted_by: &'static str,
}

/// What every row says of nearness: in an object, and flat for those that look there.
#[derive(Serialize)]
pub(super) struct Nearness {
    proximity: Proximity,
    same_device: bool,
    same_egress_ip: bool,
    same_network: bool,
}

impl From<Near> for Nearness {
    fn from(Near { device, address }: Near) -> Nearness {
        let proximity = Proximity {
            same_device: device,
            same_egress_ip: address,
            same_network: address,
            basis: "egress_ip",
            asserted_by: "gateway",
        };
        Nearness { proximity, same_device: device, same_egress_ip: address, same_network: address }
    }
}

/// What a row in memory only has instead of a number.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fleeting {
    pub storage: &'static str,
    pub volatile_cursor: String,
    pub created_at: i64,
    pub expires_at: i64,
}

/// A row of `message.pull`, and the parameters of `event/message.received`. Written out flat, member by member: it is
/// what the server writes most, and a flattened part costs several times what its members do.
#[derive(Serialize)]
struct PlainRow<'a> {
    message_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<i64>,
    from: &'a Aid,
    to: &'a Aid,
    timestamp: i64,
    payload: &'a RawValue,
    delivery_mode: &'static str,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    encrypted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    need_render: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg_subtype: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protected_headers: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a RawValue>,
    device_id: &'a DeviceId,
    sender_device_id: &'a DeviceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    proximity: Proximity,
    same_device: bool,
    same_egress_ip: bool,
    same_network: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volatile_cursor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    #[serde(rename = "_trace", skip_serializing_if = "Option::is_none")]
    trace: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct V2Row<'a> {
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<i64>,
    message_id: &'a str,
    from_aid: &'a Aid,
    sender_device_id: &'a DeviceId,
    t_server: i64,
    device_id: &'a DeviceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    #[serde(flatten)]
    content: Content<'a>,
    #[serde(flatten)]
    near: Nearness,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    fleeting: Option<&'a Fleeting>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Sealed {
        spk_id: String,
        envelope_json: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        need_render: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        msg_subtype: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content_type: Option<&'a str>,
    },
    Open {
        #[serde(flatten)]
        head: Head,
        delivery_mode: &'static str,
        legacy_v1: Legacy<'a>,
    },
}

#[derive(Serialize)]
struct Legacy<'a> {
    to: &'a Aid,
    payload: &'a RawValue,
}

impl StoredMessage {
    /// What this device may read: the payload, or its own envelope.
    fn payload(&self, place: &Place) -> &RawValue {
        match self.kind {
            Kind::V1 => self.copies.get(place.copy as usize).map_or(RawValue::NULL, |copy| copy),
            _ => &self.body,
        }
    }

    /// The row as the first generation reads it. It cannot read a V2 message.
    pub fn plain_row(
        &self,
        place: &Place,
        device: &DeviceId,
        fleeting: Option<&Fleeting>,
        trace: Option<Box<RawValue>>,
    ) -> Option<Box<RawValue>> {
        if self.kind == Kind::V2 {
            return None;
        }
        let (head, near) = (&self.head, Nearness::from(place.near));
        let row = PlainRow {
            message_id: &self.message_id,
            seq: fleeting.is_none().then_some(place.seq),
            from: &self.from,
            to: &self.to,
            timestamp: self.at,
            payload: self.payload(place),
            delivery_mode: self.delivery_mode(),
            kind: head.kind.as_deref(),
            encrypted: head.encrypted,
            need_render: head.need_render,
            msg_subtype: head.msg_subtype.as_deref(),
            content_type: head.content_type.as_deref(),
            protected_headers: head.protected_headers.as_deref(),
            headers: head.headers.as_deref(),
            context: head.context.as_deref(),
            device_id: device,
            sender_device_id: &self.device,
            direction: place.own.then_some("outbound_sync"),
            proximity: near.proximity,
            same_device: near.same_device,
            same_egress_ip: near.same_egress_ip,
            same_network: near.same_network,
            storage: fleeting.map(|fleeting| fleeting.storage),
            volatile_cursor: fleeting.map(|fleeting| fleeting.volatile_cursor.as_str()),
            created_at: fleeting.map(|fleeting| fleeting.created_at),
            expires_at: fleeting.map(|fleeting| fleeting.expires_at),
            trace,
        };
        to_raw_value(&row).ok()
    }

    /// The row as the second generation and later ones read it.
    pub fn v2_row(
        &self,
        place: &Place,
        device: &DeviceId,
        fleeting: Option<&Fleeting>,
    ) -> Option<Box<RawValue>> {
        let content = if self.kind == Kind::V2 { self.sealed(place, device)? } else { self.open(place) };
        let row = V2Row {
            version: if self.kind == Kind::V2 { "v2" } else { "v1" },
            seq: fleeting.is_none().then_some(place.seq),
            message_id: &self.message_id,
            from_aid: &self.from,
            sender_device_id: &self.device,
            t_server: self.at,
            device_id: device,
            direction: place.own.then_some("outbound_sync"),
            content,
            near: place.near.into(),
            fleeting,
        };
        to_raw_value(&row).ok()
    }

    fn sealed(&self, place: &Place, device: &DeviceId) -> Option<Content<'_>> {
        #[derive(Deserialize)]
        struct Wrap {
            recipient: Recipient,
        }
        #[derive(Deserialize)]
        struct Recipient {
            spk_id: String,
        }
        let wrap = self.copies.get(place.copy as usize)?;
        let Wrap { recipient } = serde_json::from_str(wrap.get()).ok()?;
        Some(Content::Sealed {
            spk_id: recipient.spk_id,
            envelope_json: envelope::envelope_json(&self.body, wrap, device.as_str()),
            need_render: self.head.need_render,
            msg_subtype: self.head.msg_subtype.as_deref(),
            content_type: self.head.content_type.as_deref(),
        })
    }

    fn open(&self, place: &Place) -> Content<'_> {
        let mut head = self.head.clone();
        head.kind.get_or_insert_with(|| "message".to_owned());
        Content::Open {
            head,
            delivery_mode: self.delivery_mode(),
            legacy_v1: Legacy { to: &self.to, payload: self.payload(place) },
        }
    }
}

/// What an event carries of the trace that caused it.
pub(super) fn trace_member(trace: &Trace, at: i64) -> Option<Box<RawValue>> {
    let spans = serde_json::json!([
        { "node": "gateway", "action": "route", "ts": at, "ms": 0 },
        { "node": "message", "action": "relay_in", "ts": at, "ms": 0 },
        { "node": "message", "action": "relay_out", "ts": at, "ms": 0 },
    ]);
    to_raw_value(&serde_json::json!({ "trace_id": trace.trace_id, "mode": trace.mode, "spans": spans })).ok()
}
