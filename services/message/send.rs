//! `message.send`: stored for every device of the recipient, then answered, then announced.

use super::envelope::{self, Envelope, Role};
use super::inboxes::{Inbox, Known};
use super::ledger::{Done, Draft, Queued, Write};
use super::letter::{Fleeting, Head, Key, Kind, Letter, Near, Place};
use super::volatile::VolatileRow;
use super::{Error, Message, echo, events};
use crate::kernel::{Aid, Audience, Caller, DeviceId, Event, KnownCert, Mode, Seat, Session};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// What a payload may weigh.
const PAYLOAD_BYTES: usize = 1 << 20;
const MESSAGE_ID_BYTES: usize = 256;
const LONGEST_TTL_S: i64 = 3600;

#[derive(Deserialize)]
pub(super) struct SendParams {
    to: Aid,
    payload: Box<RawValue>,
    #[serde(default)]
    r#type: Option<String>,
    #[serde(default)]
    encrypted: Option<bool>,
    #[serde(default)]
    message_id: Option<String>,
    #[serde(default)]
    delivery_mode: Option<Value>,
    #[serde(default)]
    need_render: Option<bool>,
    #[serde(default)]
    ttl: Option<i64>,
    #[serde(default)]
    device_id: Option<String>,
    #[serde(default)]
    to_device_id: Option<String>,
    #[serde(default)]
    protected_headers: Option<Box<RawValue>>,
    #[serde(default)]
    headers: Option<Box<RawValue>>,
    #[serde(default)]
    context: Option<Box<RawValue>>,
    #[serde(default)]
    msg_subtype: Option<String>,
    #[serde(default)]
    content_type: Option<String>,
}

#[derive(Clone, Serialize)]
pub(super) struct Sent {
    message_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<i64>,
    timestamp: i64,
    status: &'static str,
    delivery_mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volatile_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volatile_cursors: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
}

impl Message {
    pub(super) async fn send(self: Arc<Self>, caller: Caller, params: SendParams) -> Result<Sent, Error> {
        let session = caller.session()?;
        params.check()?;
        let recipient = self.recipient(&params.to).await?;

        let now = self.clock.now_ms();
        let ttl = params.ttl.filter(|ttl| *ttl > 0).map(|ttl| ttl.min(LONGEST_TTL_S) * 1000);
        let draft = self.draft(session, params, &recipient, now).await?;
        if let Some(ttl) = ttl {
            return Ok(self.send_fleeting(session, draft, now + ttl));
        }

        let (letter, again) = match self.ledger.write(Write::Send(Box::new(draft))).await? {
            Done::Sent(letter) => (letter, false),
            Done::Again(letter) => (letter, true),
            Done::Acked { .. } | Done::Recalled(_) => unreachable!("a letter is answered as one"),
        };
        let status = match again {
            true => "duplicate",
            false if self.is_heard(&letter, &recipient) => "delivered",
            false => "sent",
        };
        Ok(Sent::of(&letter, status))
    }

    /// Whether a connection is there for one of the places the letter got.
    fn is_heard(&self, letter: &Letter, recipient: &Known) -> bool {
        let placed = |seat: &Seat| {
            recipient.iter().any(|inbox| inbox.device == seat.device && letter.place(inbox.id).is_some())
        };
        self.presence.seats(&letter.to).iter().any(placed)
    }

    /// The inboxes of an agent of this domain. Whoever is registered can be written to, before the first connection too.
    async fn recipient(&self, to: &Aid) -> Result<Known, Error> {
        if to.issuer() != self.issuer {
            return Err(Error::Foreign(to.clone()));
        }
        let inboxes = self.inboxes.of(to).await?;
        if !inboxes.is_empty() {
            return Ok(inboxes);
        }
        let known: KnownCert =
            self.mesh.ask(Caller::room("message"), "ca.get_cert", &json!({ "aid": to })).await?;
        if !known.found {
            return Err(Error::NoRecipient(to.clone()));
        }
        Ok(self.inboxes.wait_for_first(to).await?)
    }

    async fn draft(
        &self,
        session: &Session,
        params: SendParams,
        recipient: &Known,
        now: i64,
    ) -> Result<Draft, Error> {
        let seats = self.presence.seats(&params.to);
        let mode = params.mode()?.or(seats.first().map(|seat| seat.delivery.mode)).unwrap_or_default();
        let target = params.target(recipient)?;
        let mut addressed = Addressed { session, seats: &seats, places: Vec::new(), devices: Vec::new() };
        let (kind, message_id, body, copies) = match envelope::classify(&params.payload) {
            envelope::Kind::V2 => {
                let given = params.message_id();
                let envelope = Envelope::open(&params.payload, session, &params.to, given, now)?;
                let own = self.inboxes.of(&session.aid).await?;
                let copies = addressed.sealed(&envelope, recipient, &own, target.as_ref(), &params.to)?;
                (Kind::V2, Some(envelope.message_id), envelope.body, copies)
            }
            envelope::Kind::V1Split => {
                let split = envelope::split(&params.payload)?;
                let own = self.inboxes.of(&session.aid).await?;
                let copies = addressed.split(split, recipient, &own, target.as_ref(), &params.to)?;
                (Kind::V1, params.message_id().map(str::to_owned), RawValue::NULL.to_owned(), copies)
            }
            envelope::Kind::Plain => {
                let sealed = params.encrypted == Some(true);
                let body = echo::opened(&params.payload, sealed, session, now);
                addressed.all(recipient, target.as_ref());
                (Kind::Plain, params.message_id().map(str::to_owned), body, Vec::new())
            }
        };
        let Addressed { places, devices, .. } = addressed;
        let message_id = message_id.unwrap_or_else(|| self.ids.time_ordered(now));
        let letter = Letter {
            id: 0,
            key: Key::new(&session.aid, &message_id),
            from: session.aid.clone(),
            device: session.device.clone(),
            message_id,
            at: now,
            kind,
            places,
            head: params.head(kind),
            to: params.to,
            body,
            copies,
            recalled_at: None,
        };
        let draft = Draft { letter, devices, queue: None, trace: session.trace.clone() };
        // V1 and V2 messages name their devices: they go there whatever the mode.
        let queued = kind == Kind::Plain && mode == Mode::Queue;
        Ok(if queued { self.queued(draft, &seats, now) } else { draft })
    }

    /// One connection gets it, or it waits in memory for whoever pulls first.
    fn queued(&self, mut draft: Draft, seats: &[Seat], now: i64) -> Draft {
        let letter = &mut draft.letter;
        let seat = self.rings.choose(&letter.to, &letter.from, seats, now);
        let at = seat.as_ref().and_then(|seat| draft.devices.iter().position(|device| *device == seat.device));
        let at = at.unwrap_or(0);
        letter.places = letter.places.get(at).copied().into_iter().collect();
        draft.devices = draft.devices.get(at).cloned().into_iter().collect();
        letter.kind = Kind::Queue;
        let payload = std::mem::replace(&mut letter.body, RawValue::NULL.to_owned());
        draft.queue = Some(Queued { seat, payload });
        draft
    }

    /// Kept in memory until it expires, and announced at once: it has no number.
    fn send_fleeting(&self, session: &Session, draft: Draft, expires_at: i64) -> Sent {
        let Draft { mut letter, devices, queue, .. } = draft;
        if let Some(first) = self.fleeting_sent.get(letter.key, letter.at) {
            return Sent { status: "duplicate", ..first };
        }
        if let Some(queued) = queue {
            letter.body = queued.payload;
        }
        let letter = Arc::new(letter);
        let mut cursors = Vec::new();
        for (place, device) in letter.places.iter().zip(&devices) {
            let row = VolatileRow {
                message_id: letter.message_id.clone(),
                sender: letter.from.to_string(),
                created_at: letter.at,
                expires_at,
                letter: letter.clone(),
            };
            let volatile_cursor = self.volatile.put(place.inbox, row, letter.weight());
            cursors.push(volatile_cursor.clone());
            let fleeting =
                Fleeting { storage: "volatile", volatile_cursor, created_at: letter.at, expires_at };
            self.announce_fleeting(session, &letter, place, device, &fleeting);
        }
        let sent = Sent {
            storage: Some("volatile"),
            seq: None,
            volatile_cursor: cursors.first().cloned(),
            volatile_cursors: (cursors.len() > 1).then_some(cursors),
            created_at: Some(letter.at),
            expires_at: Some(expires_at),
            ..Sent::of(&letter, "accepted")
        };
        self.fleeting_sent.put(letter.key, expires_at, sent.clone());
        sent
    }

    fn announce_fleeting(
        &self,
        session: &Session,
        letter: &Letter,
        place: &Place,
        device: &DeviceId,
        fleeting: &Fleeting,
    ) {
        let owner = if place.own { &letter.from } else { &letter.to };
        let trace =
            session.trace.as_ref().and_then(|trace| super::letter::trace_member(trace, letter.at));
        let (method, params) = match letter.kind {
            Kind::V2 => {
                let Some(row) = letter.v2_row(place, device, Some(fleeting)) else { return };
                let bell = json!({
                    "message_id": letter.message_id, "from_aid": letter.from, "sender_aid": letter.from,
                    "to": letter.to, "device_id": device, "sender_device_id": letter.device,
                    "t_server": letter.at, "storage": fleeting.storage,
                    "volatile_cursor": fleeting.volatile_cursor, "created_at": fleeting.created_at,
                    "expires_at": fleeting.expires_at, "inline_message": row,
                });
                (events::V2_RECEIVED, serde_json::value::to_raw_value(&bell).ok())
            }
            _ => (events::RECEIVED, letter.plain_row(place, device, Some(fleeting), trace)),
        };
        if let Some(params) = params {
            let to = Audience::Instance { aid: owner.clone(), device: Some(device.clone()), slot: None };
            self.bus.publish(&Event { to, method: method.to_owned(), params });
        }
    }
}

/// The answers to messages that are only in memory, for those who send one again while it lives.
#[derive(Default)]
pub(super) struct FleetingSent(Mutex<HashMap<Key, (i64, Sent)>>);

impl FleetingSent {
    /// With so many alive at once, new ones are not remembered.
    const MOST: usize = 100_000;

    fn get(&self, key: Key, now: i64) -> Option<Sent> {
        self.0.lock().get(&key).filter(|(expires_at, _)| *expires_at > now).map(|(_, sent)| sent.clone())
    }

    fn put(&self, key: Key, expires_at: i64, sent: Sent) {
        let mut alive = self.0.lock();
        if alive.len() < Self::MOST {
            alive.insert(key, (expires_at, sent));
        }
    }

    pub fn purge(&self, now: i64) {
        self.0.lock().retain(|_, (expires_at, _)| *expires_at > now);
    }
}

impl Sent {
    fn of(letter: &Letter, status: &'static str) -> Sent {
        Sent {
            message_id: letter.message_id.clone(),
            seq: letter.first_seq(),
            timestamp: letter.at,
            status,
            delivery_mode: letter.delivery_mode(),
            storage: None,
            volatile_cursor: None,
            volatile_cursors: None,
            created_at: None,
            expires_at: None,
        }
    }
}

impl SendParams {
    fn check(&self) -> Result<(), Error> {
        let refuse = |sentence: String| Err(Error::Param(sentence));
        let size = self.payload.get().len();
        if !self.payload.get().starts_with('{') {
            return refuse("params.payload: an object is taken".to_owned());
        }
        if size > PAYLOAD_BYTES {
            return refuse(format!("params.payload: {size} bytes, and at most {PAYLOAD_BYTES} are taken"));
        }
        if self.message_id.as_ref().is_some_and(|id| id.len() > MESSAGE_ID_BYTES) {
            return refuse(format!("params.message_id: at most {MESSAGE_ID_BYTES} bytes are taken"));
        }
        let plain = |text: &String| {
            (1..=40).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        };
        for (name, value) in [("msg_subtype", &self.msg_subtype), ("content_type", &self.content_type)] {
            if value.as_ref().is_some_and(|value| !plain(value)) {
                return refuse(format!("params.{name}: 1 to 40 characters of a-z and '_' are taken"));
            }
        }
        for (name, value) in [
            ("protected_headers", &self.protected_headers),
            ("headers", &self.headers),
            ("context", &self.context),
        ] {
            if value.as_ref().is_some_and(|value| !value.get().starts_with('{')) {
                return refuse(format!("params.{name}: an object is taken"));
            }
        }
        Ok(())
    }

    fn message_id(&self) -> Option<&str> {
        self.message_id.as_deref().filter(|id| !id.is_empty())
    }

    /// The mode this one message asks for, as an object or as a word.
    fn mode(&self) -> Result<Option<Mode>, Error> {
        let Some(given) = &self.delivery_mode else { return Ok(None) };
        let word = given.get("mode").unwrap_or(given);
        if given.is_null() || word.is_null() {
            return Ok(None);
        }
        let mode = serde_json::from_value(word.clone());
        mode.map(Some).map_err(|_| Error::Param("params.delivery_mode: fanout or queue".to_owned()))
    }

    /// The one device the message is for, if it names one. It never goes to others instead.
    fn target(&self, recipient: &Known) -> Result<Option<DeviceId>, Error> {
        let given = self.device_id.as_deref().filter(|device| !device.is_empty());
        let Some(device) = given.or(self.to_device_id.as_deref().filter(|device| !device.is_empty())) else {
            return Ok(None);
        };
        match recipient.iter().find(|inbox| inbox.joined && inbox.device.as_str() == device) {
            Some(inbox) => Ok(Some(inbox.device.clone())),
            None => Err(no_device(&self.to, device)),
        }
    }

    fn head(&self, kind: Kind) -> Head {
        let split = kind == Kind::V1;
        Head {
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

fn no_device(aid: &Aid, device: &str) -> Error {
    Error::NoDevice { aid: aid.clone(), device: device.chars().take(128).collect() }
}

/// The places a letter gets, one after the other.
struct Addressed<'a> {
    session: &'a Session,
    seats: &'a [Seat],
    places: Vec<Place>,
    devices: Vec<DeviceId>,
}

impl Addressed<'_> {
    fn add(&mut self, inbox: &Inbox, copy: usize, own: bool) {
        // To oneself, a device is meant twice, as the recipient's and as the sender's; it gets one row.
        if self.places.iter().any(|place| place.inbox == inbox.id) {
            return;
        }
        let beside = |seat: &Seat| seat.device == inbox.device && seat.address == self.session.address;
        let near = Near {
            device: !inbox.device.is_empty() && inbox.device == self.session.device,
            address: self.seats.iter().any(beside),
        };
        self.places.push(Place { inbox: inbox.id, seq: 0, copy: copy as u32, near, own });
        self.devices.push(inbox.device.clone());
    }

    fn all(&mut self, recipient: &Known, target: Option<&DeviceId>) {
        for inbox in recipient.iter().filter(|inbox| target.is_none_or(|target| inbox.device == *target)) {
            self.add(inbox, 0, false);
        }
    }

    /// A wrapped key for a device is for that device; one for an agent is for each of its devices that has keys.
    fn sealed(
        &mut self,
        envelope: &Envelope<'_>,
        recipient: &Known,
        own: &Known,
        target: Option<&DeviceId>,
        to: &Aid,
    ) -> Result<Vec<Box<RawValue>>, Error> {
        let mut copies = Vec::new();
        for role in [Role::Peer, Role::SelfSync] {
            let inboxes = if role == Role::Peer { recipient } else { own };
            for (index, row) in envelope.rows.iter().enumerate().filter(|(_, row)| row.role == role) {
                if !row.device.is_empty() && !inboxes.iter().any(|inbox| inbox.device.as_str() == row.device) {
                    let aid = if role == Role::Peer { to } else { &self.session.aid };
                    return Err(no_device(aid, &row.device));
                }
                for inbox in inboxes.iter() {
                    let meant = match row.device.is_empty() {
                        true => inbox.spk.is_some(),
                        false => inbox.device.as_str() == row.device,
                    };
                    let elsewhere = role == Role::SelfSync && inbox.device == self.session.device;
                    let aside = role == Role::Peer && target.is_some_and(|target| inbox.device != *target);
                    if meant && !elsewhere && !aside {
                        self.add(inbox, copies.len(), role == Role::SelfSync);
                    }
                }
                copies.push(envelope.wrap(index));
            }
        }
        if self.places.iter().all(|place| place.own) {
            return Err(no_device(to, ""));
        }
        Ok(copies)
    }

    /// Each device gets its own envelope; a copy for a device nobody has is left out.
    fn split(
        &mut self,
        split: envelope::Split,
        recipient: &Known,
        own: &Known,
        target: Option<&DeviceId>,
        to: &Aid,
    ) -> Result<Vec<Box<RawValue>>, Error> {
        let mut copies = Vec::new();
        let single = split.recipients.len() == 1;
        for (device, envelope) in split.recipients {
            let placeholder = matches!(device.as_str(), "" | "aun_device_id");
            let inbox = match recipient.iter().find(|inbox| inbox.device.as_str() == device) {
                None if placeholder && single => recipient.first(),
                found => found,
            };
            let inbox = inbox.filter(|inbox| target.is_none_or(|target| inbox.device == *target));
            if let Some(inbox) = inbox {
                self.add(inbox, copies.len(), false);
                copies.push(envelope);
            }
        }
        if copies.is_empty() {
            return Err(no_device(to, ""));
        }
        for (device, envelope) in split.own {
            if let Some(inbox) = own.iter().find(|inbox| inbox.device.as_str() == device) {
                self.add(inbox, copies.len(), true);
                copies.push(envelope);
            }
        }
        Ok(copies)
    }
}
