//! A letter as the log keeps it, and the rows that clients of each generation read of it.

use super::envelope;
use crate::kernel::{Aid, DeviceId, Trace};
use ring::digest;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Letter {
    /// Its place in the log; the log knows it by heart.
    #[serde(skip)]
    pub id: i64,
    #[serde(skip)]
    pub key: Key,
    pub from: Aid,
    pub device: DeviceId,
    pub to: Aid,
    pub message_id: String,
    pub at: i64,
    pub kind: Kind,
    pub places: Vec<Place>,
    pub head: Head,
    /// The payload; of a V2 message the envelope without its recipients. Never read, and never written differently.
    pub body: Box<RawValue>,
    /// What differs from device to device: envelopes of a V1 message, wrapped keys of a V2 message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recalled_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// One payload for every device.
    Plain,
    /// An envelope for each device.
    V1,
    /// One envelope, and a wrapped key for each device.
    V2,
    /// It lived in memory only; the log keeps the number it had, so that nobody gets it again.
    Queue,
    /// It was recalled, or it says that another one was.
    Recall,
}

/// A number in an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(i64, i64, u32, u8)", into = "(i64, i64, u32, u8)")]
pub(super) struct Place {
    pub inbox: i64,
    pub seq: i64,
    /// Which of the copies is for this inbox.
    pub copy: u32,
    pub near: Near,
    /// The inbox is the sender's own: another device of theirs learns what was sent.
    pub own: bool,
}

/// How near sender and receiver were when it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Near {
    pub device: bool,
    pub address: bool,
}

impl From<(i64, i64, u32, u8)> for Place {
    fn from((inbox, seq, copy, flags): (i64, i64, u32, u8)) -> Place {
        let near = Near { device: flags & 1 != 0, address: flags & 2 != 0 };
        Place { inbox, seq, copy, near, own: flags & 4 != 0 }
    }
}

impl From<Place> for (i64, i64, u32, u8) {
    fn from(place: Place) -> Self {
        let flags =
            u8::from(place.near.device) | u8::from(place.near.address) << 1 | u8::from(place.own) << 2;
        (place.inbox, place.seq, place.copy, flags)
    }
}

/// What the sender put beside the payload, passed on as it came.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Head {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need_render: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_subtype: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected_headers: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<RawValue>>,
}

/// Who sent it and what they called it: what a second sending is known by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Key([u8; 16]);

impl Key {
    pub fn new(from: &Aid, message_id: &str) -> Key {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(from.as_str().as_bytes());
        hash.update(&[0]);
        hash.update(message_id.as_bytes());
        let mut key = Key::default();
        key.0.copy_from_slice(&hash.finish().as_ref()[..16]);
        key
    }

    /// As PostgreSQL keeps it, where it has to be unique.
    pub fn text(&self) -> String {
        hex::encode(self.0)
    }

    /// As SQLite keeps it, where it only has to be nearly unique.
    pub fn number(&self) -> i64 {
        i64::from_be_bytes([self.0[0], self.0[1], self.0[2], self.0[3], self.0[4], self.0[5], self.0[6], self.0[7]])
    }

    /// Bits that have nothing to do with the number's.
    pub fn rest(&self) -> [u8; 8] {
        [self.0[8], self.0[9], self.0[10], self.0[11], self.0[12], self.0[13], self.0[14], self.0[15]]
    }
}

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

/// A row of `message.pull`, and the parameters of `event/message.received`.
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
    #[serde(flatten)]
    head: Cow<'a, Head>,
    device_id: &'a DeviceId,
    sender_device_id: &'a DeviceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    #[serde(flatten)]
    near: Nearness,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    fleeting: Option<&'a Fleeting>,
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

impl Letter {
    pub fn place(&self, inbox: i64) -> Option<&Place> {
        self.places.iter().find(|place| place.inbox == inbox)
    }

    /// The first place of the recipient: the number the sender is told.
    pub fn first_seq(&self) -> Option<i64> {
        self.places.iter().find(|place| !place.own).or(self.places.first()).map(|place| place.seq)
    }

    pub fn delivery_mode(&self) -> &'static str {
        if self.kind == Kind::Queue { "queue" } else { "fanout" }
    }

    /// Roughly what it weighs in memory and in a page.
    pub fn weight(&self) -> usize {
        self.body.get().len() + self.copies.iter().map(|copy| copy.get().len()).sum::<usize>() + 512
    }

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
        let row = PlainRow {
            message_id: &self.message_id,
            seq: fleeting.is_none().then_some(place.seq),
            from: &self.from,
            to: &self.to,
            timestamp: self.at,
            payload: self.payload(place),
            delivery_mode: self.delivery_mode(),
            head: Cow::Borrowed(&self.head),
            device_id: device,
            sender_device_id: &self.device,
            direction: place.own.then_some("outbound_sync"),
            near: place.near.into(),
            fleeting,
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

    /// Takes back what was said: the content is gone, the number stays.
    pub fn recalled(&self, at: i64) -> Letter {
        Letter {
            kind: Kind::Recall,
            head: Head { kind: Some(RECALLED.to_owned()), ..Head::default() },
            body: recall_payload(std::slice::from_ref(&self.message_id), at, &self.from),
            copies: Vec::new(),
            recalled_at: Some(at),
            ..self.clone()
        }
    }
}

pub(super) const RECALLED: &str = "message.recalled";

/// What a row says in place of a letter that was taken back.
pub(super) fn recall_payload(message_ids: &[String], at: i64, by: &Aid) -> Box<RawValue> {
    #[derive(Serialize)]
    struct Payload<'a> {
        r#type: &'static str,
        kind: &'static str,
        message_ids: &'a [String],
        recalled_at: i64,
        recalled_by: &'a Aid,
    }
    to_raw_value(&Payload { r#type: RECALLED, kind: RECALLED, message_ids, recalled_at: at, recalled_by: by })
        .unwrap_or_else(|_| RawValue::NULL.to_owned())
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
