//! The parameters of `message.send`, their checks, and the answer.

use super::address::no_device;
use crate::store::inboxes::InboxList;
use crate::store::stored_message::{MessageAttributes, MessageKind, StoredMessage};
use crate::{Error, MessageService};
use kernel::{Aid, DeviceId, Mode, Session};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

const MAX_PAYLOAD_BYTES: usize = 1 << 20;
const MAX_MESSAGE_ID_BYTES: usize = 256;
/// Headers, protected headers and context together.
const MAX_HEADER_BYTES: usize = 64 << 10;
const MIN_TTL_MS: i64 = 1000;
const MAX_TTL_MS: i64 = 3_600_000;

/// Serialized, too: a message for another domain is relayed with the same parameters.
#[derive(Deserialize, Serialize)]
pub(crate) struct SendParams {
    pub to: Aid,
    pub payload: Box<RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_mode: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need_render: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Number>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_device_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected_headers: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_subtype: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// The answer. That of another domain is read, too.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub message_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    pub timestamp: i64,
    pub status: SendStatus,
    #[serde(default)]
    pub delivery_mode: Mode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volatile_cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volatile_cursors: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cross_domain: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_issuer: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SendStatus {
    Sent,
    Delivered,
    Duplicate,
    /// Stored in memory, with a ttl.
    Accepted,
    /// Stored here until the recipient's domain can be reached.
    Queued,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Storage {
    Persistent,
    Volatile,
}

impl Sent {
    pub fn of(message: &StoredMessage, status: SendStatus) -> Sent {
        let mode = if message.kind == MessageKind::Queue { Mode::Queue } else { Mode::Fanout };
        Sent { seq: message.first_seq(), ..Sent::new(&message.message_id, message.at, status, mode) }
    }

    /// Without a seq.
    pub fn new(message_id: &str, at: i64, status: SendStatus, mode: Mode) -> Sent {
        Sent {
            message_id: message_id.to_owned(),
            seq: None,
            timestamp: at,
            status,
            delivery_mode: mode,
            storage: None,
            volatile_cursor: None,
            volatile_cursors: None,
            created_at: None,
            expires_at: None,
            cross_domain: false,
            target_issuer: None,
        }
    }
}

impl MessageService {
    /// The ttl of a message, if it has one. "A positive message TTL crosses as the remaining TTL" (§1.2): of a message from
    /// another domain there may be less left than the shortest that a sender can ask for.
    pub(crate) fn ttl_ms(&self, session: &Session, params: &SendParams) -> Option<i64> {
        let seconds = params.ttl.as_ref().and_then(Number::as_f64).filter(|seconds| *seconds > 0.0)?;
        let shortest = if self.is_ours(&session.aid) { MIN_TTL_MS } else { 1 };
        Some(((seconds * 1000.0) as i64).clamp(shortest, MAX_TTL_MS))
    }
}

impl SendParams {
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |sentence: String| Err(Error::Param(sentence));
        let size = self.payload.get().len();
        // "The protocol layer only demands that payload is a JSON object"; some clients send text (decision 18).
        if !self.payload.get().starts_with(['{', '"']) {
            return refuse("params.payload: must be an object or a string".to_owned());
        }
        if size > MAX_PAYLOAD_BYTES {
            return refuse(format!(
                "params.payload: must have at most {MAX_PAYLOAD_BYTES} bytes, and has {size}"
            ));
        }
        if self.message_id.as_ref().is_some_and(|id| id.len() > MAX_MESSAGE_ID_BYTES) {
            return refuse(format!("params.message_id: must have at most {MAX_MESSAGE_ID_BYTES} bytes"));
        }
        let plain = |text: &String| {
            (1..=40).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        };
        for (name, value) in [("msg_subtype", &self.msg_subtype), ("content_type", &self.content_type)] {
            if value.as_ref().is_some_and(|value| !plain(value)) {
                return refuse(format!("params.{name}: must be 1 to 40 characters of a-z and '_'"));
            }
        }
        let beside = [
            ("protected_headers", &self.protected_headers),
            ("headers", &self.headers),
            ("context", &self.context),
        ];
        for (name, value) in beside {
            if value.as_ref().is_some_and(|value| !value.get().starts_with('{')) {
                return refuse(format!("params.{name}: must be an object"));
            }
        }
        let size: usize =
            beside.iter().flat_map(|(_, value)| value.iter()).map(|value| value.get().len()).sum();
        if size > MAX_HEADER_BYTES {
            return refuse(format!(
                "params.protected_headers, params.headers and params.context: must have at most {MAX_HEADER_BYTES} bytes \
                 together, and have {size}"
            ));
        }
        Ok(())
    }

    pub fn message_id(&self) -> Option<&str> {
        self.message_id.as_deref().filter(|id| !id.is_empty())
    }

    /// The mode this one message asks for, as an object or as a word.
    pub fn mode(&self) -> Result<Option<Mode>, Error> {
        let Some(given) = &self.delivery_mode else { return Ok(None) };
        let word = given.get("mode").unwrap_or(given);
        if given.is_null() || word.is_null() {
            return Ok(None);
        }
        let mode = serde_json::from_value(word.clone());
        mode.map(Some).map_err(|_| Error::Param("params.delivery_mode: must be fanout or queue".to_owned()))
    }

    /// The one device the message is for, if it names one. It never goes to others instead.
    pub fn target(&self, recipient: &InboxList) -> Result<Option<DeviceId>, Error> {
        let given = self.device_id.as_deref().filter(|device| !device.is_empty());
        let Some(device) = given.or(self.to_device_id.as_deref().filter(|device| !device.is_empty())) else {
            return Ok(None);
        };
        match recipient.iter().find(|inbox| inbox.joined && inbox.device.as_str() == device) {
            Some(inbox) => Ok(Some(inbox.device.clone())),
            None => Err(no_device(&self.to, device)),
        }
    }

    pub fn attributes(&self, kind: MessageKind) -> MessageAttributes {
        let split = kind == MessageKind::V1;
        MessageAttributes {
            kind: if split { Some("e2ee.encrypted".to_owned()) } else { self.r#type.clone() },
            encrypted: split || self.encrypted == Some(true),
            need_render: self.need_render,
            msg_subtype: self.msg_subtype.clone(),
            content_type: self.content_type.clone(),
            protected_headers: self.protected_headers.clone(),
            headers: self.headers.clone(),
            context: self.context.clone(),
        }
    }
}
