//! A message as the log keeps it.

use crate::kernel::{Aid, DeviceId};
use ring::digest;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredMessage {
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
        i64::from_be_bytes([
            self.0[0], self.0[1], self.0[2], self.0[3], self.0[4], self.0[5], self.0[6], self.0[7],
        ])
    }

    /// Bits that have nothing to do with the number's.
    pub fn rest(&self) -> [u8; 8] {
        [self.0[8], self.0[9], self.0[10], self.0[11], self.0[12], self.0[13], self.0[14], self.0[15]]
    }
}

impl StoredMessage {
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

    /// Takes back what was said: the content is gone, the number stays.
    pub fn recalled(&self, at: i64) -> StoredMessage {
        StoredMessage {
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

/// What a row says in place of a message that was taken back.
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
