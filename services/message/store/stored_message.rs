//! A message as the log stores it. The log keeps it as JSON: the names of its members never change.

use kernel::{Aid, DeviceId, Kept};
use ring::digest;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredMessage {
    /// Its id in the log, which is a column there.
    #[serde(skip)]
    pub id: i64,
    #[serde(skip)]
    pub key: MessageKey,
    pub from: Aid,
    pub device: DeviceId,
    pub to: Aid,
    pub message_id: String,
    pub at: i64,
    pub kind: MessageKind,
    #[serde(rename = "places")]
    pub entries: Vec<InboxEntry>,
    #[serde(rename = "head")]
    pub attributes: MessageAttributes,
    /// The payload; of a V2 message the envelope without its recipients. Never read, and never written differently.
    pub body: Box<RawValue>,
    /// What differs from device to device: envelopes of a V1 message, wrapped keys of a V2 message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recalled_at: Option<i64>,
    /// Whether its sender named the one device of the recipient that it is for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub targeted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MessageKind {
    /// One payload for every device.
    Plain,
    /// An envelope for each device.
    V1,
    /// One envelope, and a wrapped key for each device.
    V2,
    /// Its content was in memory only; the log keeps the seq it had, so that no other message gets it.
    Queue,
    /// It was recalled, or it says that another one was.
    Recall,
}

/// A message in one inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(i64, i64, u32, u8)", into = "(i64, i64, u32, u8)")]
pub(crate) struct InboxEntry {
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
pub(crate) struct Near {
    pub device: bool,
    pub address: bool,
}

impl From<(i64, i64, u32, u8)> for InboxEntry {
    fn from((inbox, seq, copy, flags): (i64, i64, u32, u8)) -> InboxEntry {
        let near = Near { device: flags & 1 != 0, address: flags & 2 != 0 };
        InboxEntry { inbox, seq, copy, near, own: flags & 4 != 0 }
    }
}

impl From<InboxEntry> for (i64, i64, u32, u8) {
    fn from(entry: InboxEntry) -> Self {
        let flags =
            u8::from(entry.near.device) | u8::from(entry.near.address) << 1 | u8::from(entry.own) << 2;
        (entry.inbox, entry.seq, entry.copy, flags)
    }
}

/// What the sender put beside the payload, passed on as it came.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MessageAttributes {
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

impl MessageAttributes {
    fn bytes(&self) -> usize {
        let texts = [&self.kind, &self.msg_subtype, &self.content_type];
        let members = [&self.protected_headers, &self.headers, &self.context];
        texts.into_iter().flatten().map(String::len).sum::<usize>()
            + members.into_iter().flatten().map(|member| member.get().len()).sum::<usize>()
    }
}

/// The sender and the message id: a message that is sent again has the same key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct MessageKey([u8; 16]);

impl MessageKey {
    pub fn new(from: &Aid, message_id: &str) -> MessageKey {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(from.as_str().as_bytes());
        hash.update(&[0]);
        hash.update(message_id.as_bytes());
        let mut key = MessageKey::default();
        key.0.copy_from_slice(&hash.finish().as_ref()[..16]);
        key
    }

    /// As PostgreSQL stores it, where it has to be unique.
    pub fn text(&self) -> String {
        hex::encode(self.0)
    }

    /// As SQLite stores it, where it only has to be nearly unique.
    pub fn number(&self) -> i64 {
        i64::from_be_bytes([
            self.0[0], self.0[1], self.0[2], self.0[3], self.0[4], self.0[5], self.0[6], self.0[7],
        ])
    }

    /// Bits that have nothing to do with those of [`MessageKey::number`].
    pub fn rest(&self) -> [u8; 8] {
        [self.0[8], self.0[9], self.0[10], self.0[11], self.0[12], self.0[13], self.0[14], self.0[15]]
    }
}

impl StoredMessage {
    /// Reads a row of the log.
    pub fn read(id: i64, data: &str) -> sqlx::Result<Arc<StoredMessage>> {
        let mut message: StoredMessage =
            serde_json::from_str(data).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        message.id = id;
        message.key = MessageKey::new(&message.from, &message.message_id);
        Ok(Arc::new(message))
    }

    pub fn entry(&self, inbox: i64) -> Option<&InboxEntry> {
        self.entries.iter().find(|entry| entry.inbox == inbox)
    }

    /// Whether it was sent to one device of this agent alone.
    pub fn is_targeted_at(&self, aid: &Aid) -> bool {
        self.targeted && self.to == *aid
    }

    /// The seq in the first inbox of the recipient: the one the sender is told.
    pub fn first_seq(&self) -> Option<i64> {
        self.entries.iter().find(|entry| !entry.own).or(self.entries.first()).map(|entry| entry.seq)
    }

    pub fn delivery_mode(&self) -> &'static str {
        if self.kind == MessageKind::Queue { "queue" } else { "fanout" }
    }

    /// What its sender pays for: its bytes, and a row for each device that gets it.
    pub fn kept(&self) -> Kept {
        let copies: usize = self.copies.iter().map(|copy| copy.get().len()).sum();
        Kept::rows(self.entries.len().max(1), self.body.get().len() + copies + self.attributes.bytes())
    }

    /// Roughly how many bytes it takes in memory.
    pub fn bytes(&self) -> usize {
        let copies: usize = self.copies.iter().map(|copy| copy.get().len()).sum();
        self.body.get().len() + copies + self.attributes.bytes() + 512
    }

    /// The same message without its content; its seqs stay.
    pub fn recalled(&self, at: i64) -> StoredMessage {
        StoredMessage {
            kind: MessageKind::Recall,
            attributes: MessageAttributes { kind: Some(RECALLED.to_owned()), ..MessageAttributes::default() },
            body: recall_payload(std::slice::from_ref(&self.message_id), at, &self.from),
            copies: Vec::new(),
            recalled_at: Some(at),
            ..self.clone()
        }
    }
}

pub(crate) const RECALLED: &str = "message.recalled";

/// What a row says in place of a message that was recalled.
pub(crate) fn recall_payload(message_ids: &[String], at: i64, by: &Aid) -> Box<RawValue> {
    #[derive(Serialize)]
    struct RecallPayload<'a> {
        r#type: &'static str,
        kind: &'static str,
        message_ids: &'a [String],
        recalled_at: i64,
        recalled_by: &'a Aid,
    }
    to_raw_value(&RecallPayload {
        r#type: RECALLED,
        kind: RECALLED,
        message_ids,
        recalled_at: at,
        recalled_by: by,
    })
    .unwrap_or_else(|_| RawValue::NULL.to_owned())
}
