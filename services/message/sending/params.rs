//! The parameters of `message.send`: their checks, and what they ask for. And the answer.

use super::address::no_device;
use crate::store::inboxes::InboxList;
use crate::store::stored_message::{MessageAttributes, MessageKind, StoredMessage};
use crate::{Error, MessageService};
use kernel::{CallingAgent, DeviceId, Mode};
use proto_schemas::requests::message::{Send, SendStatus, SentMessage};
use serde::Deserialize as _;
use serde_json::Value;

const MAX_PAYLOAD_BYTES: usize = 1 << 20;
const MAX_MESSAGE_ID_BYTES: usize = 256;
/// Headers, protected headers and context together.
const MAX_HEADER_BYTES: usize = 64 << 10;
const MIN_TTL_MS: i64 = 1000;
const MAX_TTL_MS: i64 = 3_600_000;

impl MessageService {
    /// The ttl of a message, if it has one. "A positive message TTL crosses as the remaining TTL" (§1.2): of a message from
    /// another domain there may be less left than the shortest that a sender can ask for.
    pub(crate) fn ttl_ms(&self, session: &CallingAgent, send: &Send) -> Option<i64> {
        let seconds = send.ttl.filter(|seconds| *seconds > 0.0)?;
        let shortest = if self.is_ours(&session.aid) { MIN_TTL_MS } else { 1 };
        Some(((seconds * 1000.0) as i64).clamp(shortest, MAX_TTL_MS))
    }
}

pub(crate) fn check(send: &Send) -> Result<(), Error> {
    let refuse = |sentence: String| Err(Error::Param(sentence));
    let size = send.payload.get().len();
    // "The protocol layer only demands that payload is a JSON object"; some clients send text (decision 18).
    if !send.payload.get().starts_with(['{', '"']) {
        return refuse("payload must be an object or a string".to_owned());
    }
    if size > MAX_PAYLOAD_BYTES {
        return refuse(format!("payload must have at most {MAX_PAYLOAD_BYTES} bytes, and has {size}"));
    }
    if send.message_id.as_ref().is_some_and(|id| id.len() > MAX_MESSAGE_ID_BYTES) {
        return refuse(format!("message_id must have at most {MAX_MESSAGE_ID_BYTES} bytes"));
    }
    let plain = |text: &String| {
        (1..=40).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    };
    for (name, value) in [("msg_subtype", &send.msg_subtype), ("content_type", &send.content_type)] {
        if value.as_ref().is_some_and(|value| !plain(value)) {
            return refuse(format!("{name} must be 1 to 40 characters of a-z and '_'"));
        }
    }
    check_headers(send)
}

fn check_headers(send: &Send) -> Result<(), Error> {
    let beside = [
        ("protected_headers", &send.protected_headers),
        ("headers", &send.headers),
        ("context", &send.context),
    ];
    for (name, value) in beside {
        if value.as_ref().is_some_and(|value| !value.get().starts_with('{')) {
            return Err(Error::Param(format!("{name} must be an object")));
        }
    }
    let size: usize = beside.iter().flat_map(|(_, value)| value.iter()).map(|value| value.get().len()).sum();
    if size > MAX_HEADER_BYTES {
        return Err(Error::Param(format!(
            "protected_headers, headers and context must have at most {MAX_HEADER_BYTES} bytes \
             together, and have {size}"
        )));
    }
    Ok(())
}

pub(crate) fn message_id(send: &Send) -> Option<&str> {
    send.message_id.as_deref().filter(|id| !id.is_empty())
}

/// The mode this one message asks for, as an object or as a word.
pub(crate) fn mode(send: &Send) -> Result<Option<Mode>, Error> {
    let Some(given) = &send.delivery_mode else { return Ok(None) };
    let wrong = |_| Error::Param("delivery_mode must be fanout or queue".to_owned());
    let given: Value = serde_json::from_str(given.get()).map_err(wrong)?;
    let word = given.get("mode").unwrap_or(&given);
    Option::deserialize(word).map_err(wrong)
}

/// The one device the message is for, if it names one. It never goes to others instead.
pub(crate) fn target(send: &Send, recipient: &InboxList) -> Result<Option<DeviceId>, Error> {
    let given = send.device_id.as_deref().filter(|device| !device.is_empty());
    let Some(device) = given.or(send.to_device_id.as_deref().filter(|device| !device.is_empty())) else {
        return Ok(None);
    };
    match recipient.iter().find(|inbox| inbox.joined && inbox.device.as_str() == device) {
        Some(inbox) => Ok(Some(inbox.device.clone())),
        None => Err(no_device(&send.to, device)),
    }
}

pub(crate) fn attributes(send: &Send, kind: MessageKind) -> MessageAttributes {
    let split = kind == MessageKind::V1;
    MessageAttributes {
        kind: if split { Some("e2ee.encrypted".to_owned()) } else { send.kind.clone() },
        encrypted: split || send.encrypted == Some(true),
        need_render: send.need_render,
        msg_subtype: send.msg_subtype.clone(),
        content_type: send.content_type.clone(),
        protected_headers: send.protected_headers.clone(),
        headers: send.headers.clone(),
        context: send.context.clone(),
    }
}

pub(crate) fn sent(message: &StoredMessage, status: SendStatus) -> SentMessage {
    let mode = if message.kind == MessageKind::Queue { Mode::Queue } else { Mode::Fanout };
    let sent = SentMessage::new(message.message_id.clone(), message.at, status, mode);
    SentMessage { seq: message.first_seq(), ..sent }
}
