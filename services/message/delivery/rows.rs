//! The rows that clients of each generation read of a message.

use crate::envelope;
use crate::store::stored_message::{InboxEntry, MessageAttributes, MessageKind, Near, StoredMessage};
use kernel::{Aid, DeviceId};
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
pub(crate) struct Nearness {
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

/// What the row of a message with a ttl has in place of a seq.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct VolatileFields {
    pub storage: &'static str,
    pub volatile_cursor: String,
    pub created_at: i64,
    pub expires_at: i64,
}

/// A row of `message.pull`, and the parameters of `event/message.received`. Written out flat, member by member: it is
/// what the server writes most, and a flattened struct costs several times what its members do.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    encrypted: Option<bool>,
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
    content: V2Content<'a>,
    #[serde(flatten)]
    near: Nearness,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    volatile: Option<&'a VolatileFields>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum V2Content<'a> {
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
        attributes: MessageAttributes,
        delivery_mode: &'static str,
        legacy_v1: LegacyContent<'a>,
    },
}

#[derive(Serialize)]
struct LegacyContent<'a> {
    to: &'a Aid,
    payload: &'a RawValue,
}

impl StoredMessage {
    /// What this device can read: the payload, or its own envelope.
    fn payload(&self, entry: &InboxEntry) -> &RawValue {
        match self.kind {
            MessageKind::V1 => self.copies.get(entry.copy as usize).map_or(RawValue::NULL, |copy| copy),
            _ => &self.body,
        }
    }

    /// The row as the first generation reads it. It cannot read a V2 message.
    pub fn plain_row(
        &self,
        entry: &InboxEntry,
        device: &DeviceId,
        volatile: Option<&VolatileFields>,
    ) -> Option<Box<RawValue>> {
        self.plain(entry, device, volatile, self.attributes.encrypted.then_some(true), None)
    }

    /// The parameters of `event/message.received`: the row, and `"encrypted": false` of a plain payload. fastaun 0.2.20 decrypts
    /// what has no flag and hands on what has `false`, so no payload that may be an envelope gets it.
    pub fn received_params(
        &self,
        entry: &InboxEntry,
        device: &DeviceId,
        volatile: Option<&VolatileFields>,
        trace: Option<Box<RawValue>>,
    ) -> Option<Box<RawValue>> {
        let encrypted = match self.attributes.encrypted {
            true => Some(true),
            false => (!envelope::may_be_sealed(self.payload(entry))).then_some(false),
        };
        self.plain(entry, device, volatile, encrypted, trace)
    }

    fn plain(
        &self,
        entry: &InboxEntry,
        device: &DeviceId,
        volatile: Option<&VolatileFields>,
        encrypted: Option<bool>,
        trace: Option<Box<RawValue>>,
    ) -> Option<Box<RawValue>> {
        if self.kind == MessageKind::V2 {
            return None;
        }
        let (attributes, near) = (&self.attributes, Nearness::from(entry.near));
        let row = PlainRow {
            message_id: &self.message_id,
            seq: volatile.is_none().then_some(entry.seq),
            from: &self.from,
            to: &self.to,
            timestamp: self.at,
            payload: self.payload(entry),
            delivery_mode: self.delivery_mode(),
            kind: attributes.kind.as_deref(),
            encrypted,
            need_render: attributes.need_render,
            msg_subtype: attributes.msg_subtype.as_deref(),
            content_type: attributes.content_type.as_deref(),
            protected_headers: attributes.protected_headers.as_deref(),
            headers: attributes.headers.as_deref(),
            context: attributes.context.as_deref(),
            device_id: device,
            sender_device_id: &self.device,
            direction: entry.own.then_some("outbound_sync"),
            proximity: near.proximity,
            same_device: near.same_device,
            same_egress_ip: near.same_egress_ip,
            same_network: near.same_network,
            storage: volatile.map(|volatile| volatile.storage),
            volatile_cursor: volatile.map(|volatile| volatile.volatile_cursor.as_str()),
            created_at: volatile.map(|volatile| volatile.created_at),
            expires_at: volatile.map(|volatile| volatile.expires_at),
            trace,
        };
        to_raw_value(&row).ok()
    }

    /// The row as the second generation and later ones read it.
    pub fn v2_row(
        &self,
        entry: &InboxEntry,
        device: &DeviceId,
        volatile: Option<&VolatileFields>,
    ) -> Option<Box<RawValue>> {
        let content =
            if self.kind == MessageKind::V2 { self.sealed(entry, device)? } else { self.open(entry) };
        let row = V2Row {
            version: if self.kind == MessageKind::V2 { "v2" } else { "v1" },
            seq: volatile.is_none().then_some(entry.seq),
            message_id: &self.message_id,
            from_aid: &self.from,
            sender_device_id: &self.device,
            t_server: self.at,
            device_id: device,
            direction: entry.own.then_some("outbound_sync"),
            content,
            near: entry.near.into(),
            volatile,
        };
        to_raw_value(&row).ok()
    }

    fn sealed(&self, entry: &InboxEntry, device: &DeviceId) -> Option<V2Content<'_>> {
        #[derive(Deserialize)]
        struct StoredWrap {
            recipient: WrapRecipient,
        }
        #[derive(Deserialize)]
        struct WrapRecipient {
            spk_id: String,
        }
        let wrap = self.copies.get(entry.copy as usize)?;
        let StoredWrap { recipient } = serde_json::from_str(wrap.get()).ok()?;
        Some(V2Content::Sealed {
            spk_id: recipient.spk_id,
            envelope_json: envelope::envelope_json(&self.body, wrap, device.as_str()),
            need_render: self.attributes.need_render,
            msg_subtype: self.attributes.msg_subtype.as_deref(),
            content_type: self.attributes.content_type.as_deref(),
        })
    }

    fn open(&self, entry: &InboxEntry) -> V2Content<'_> {
        let mut attributes = self.attributes.clone();
        attributes.kind.get_or_insert_with(|| "message".to_owned());
        V2Content::Open {
            attributes,
            delivery_mode: self.delivery_mode(),
            legacy_v1: LegacyContent { to: &self.to, payload: self.payload(entry) },
        }
    }
}
