//! `message.send`: stored for every device of the recipient, then answered, then announced.

use super::address::{Addressed, no_device};
use super::envelope::{self, Envelope};
use super::inboxes::Known;
use super::ledger::{Changes, Done, Draft, Queued, Write};
use super::letter::{Head, Key, Kind, Letter, Place};
use super::{Error, Message, echo};
use crate::kernel::{Aid, Caller, DeviceId, KnownCert, Mode, RpcError, Seat, Session, codes};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::Arc;

/// What a payload may weigh.
const PAYLOAD_BYTES: usize = 1 << 20;
const MESSAGE_ID_BYTES: usize = 256;
const LONGEST_TTL_S: i64 = 3600;
/// How often a letter is addressed anew because devices came and went meanwhile.
const TRIES: usize = 3;

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
    pub message_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    pub timestamp: i64,
    pub status: &'static str,
    pub delivery_mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volatile_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volatile_cursors: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
}

impl Message {
    pub(super) async fn send(self: Arc<Self>, caller: Caller, params: SendParams) -> Result<Sent, Error> {
        let session = caller.session()?;
        params.check()?;
        for _ in 0..TRIES {
            match self.send_once(session, &params).await {
                Ok(Some(sent)) => return Ok(sent),
                Err(error) if !matches!(error, Error::NoDevice { .. }) => return Err(error),
                // What this process remembers of their devices may be old.
                Ok(None) | Err(_) => {
                    self.inboxes.forget(&params.to);
                    self.inboxes.forget(&session.aid);
                }
            }
        }
        self.send_once(session, &params).await?.ok_or_else(|| RpcError::plain(codes::UNAVAILABLE).into())
    }

    /// Gives nothing if the letter was addressed to other devices than its recipient has.
    async fn send_once(&self, session: &Session, params: &SendParams) -> Result<Option<Sent>, Error> {
        let ttl = params.ttl.filter(|ttl| *ttl > 0).map(|ttl| ttl.min(LONGEST_TTL_S) * 1000);
        if ttl.is_some() && self.shared.is_some() {
            // No commit compares what these are addressed from.
            self.inboxes.forget(&params.to);
            self.inboxes.forget(&session.aid);
        }
        let recipient = self.recipient(&params.to).await?;
        let now = self.clock.now_ms();
        let (draft, changes) = self.draft(session, params, &recipient, now).await?;
        if let Some(ttl) = ttl {
            return Ok(Some(self.send_fleeting(session, draft, now + ttl).await?));
        }

        let (letter, again) = match self.ledger.write(Write::Send(Box::new(draft), changes)).await? {
            Done::Sent(letter) => (letter, false),
            Done::Again(letter) => (letter, true),
            Done::Stale => return Ok(None),
            Done::Acked { .. } | Done::Recalled(_) => unreachable!("a letter is answered as one"),
        };
        let status = match again {
            true => "duplicate",
            false if self.is_heard(&letter, &recipient) => "delivered",
            false => "sent",
        };
        Ok(Some(Sent::of(&letter, status)))
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
        let inboxes = self.inboxes.remembered(to).await?;
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
        params: &SendParams,
        recipient: &Known,
        now: i64,
    ) -> Result<(Draft, Changes), Error> {
        let seats = self.presence.seats(&params.to);
        let mode = params.mode()?.or(seats.first().map(|seat| seat.delivery.mode)).unwrap_or_default();
        let target = params.target(recipient)?;
        let mut own = Known::default();
        let mut addressed = Addressed { session, seats: &seats, places: Vec::new(), devices: Vec::new() };
        let (kind, message_id, body, copies) = match envelope::classify(&params.payload) {
            envelope::Kind::V2 => {
                let given = params.message_id();
                let envelope = Envelope::open(&params.payload, session, &params.to, given, now)?;
                own = self.inboxes.remembered(&session.aid).await?;
                let copies = addressed.sealed(&envelope, recipient, &own, target.as_ref(), &params.to)?;
                (Kind::V2, Some(envelope.message_id), envelope.body, copies)
            }
            envelope::Kind::V1Split => {
                let split = envelope::split(&params.payload)?;
                own = self.inboxes.remembered(&session.aid).await?;
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
            to: params.to.clone(),
            body,
            copies,
            recalled_at: None,
        };
        let mut changes = Changes::default();
        changes.0.extend(checked(recipient, &letter.places).into_iter().chain(checked(&own, &letter.places)));
        let draft = Draft { letter, devices, queue: None, trace: session.trace.clone() };
        // V1 and V2 messages name their devices: they go there whatever the mode.
        let queued = kind == Kind::Plain && mode == Mode::Queue;
        Ok((if queued { self.queued(draft, &seats, now) } else { draft }, changes))
    }

    /// One connection gets it, or it waits in memory for whoever pulls first.
    fn queued(&self, mut draft: Draft, seats: &[Seat], now: i64) -> Draft {
        let letter = &mut draft.letter;
        let seat = self.rings.choose(&letter.to, &letter.from, seats, now);
        let at =
            seat.as_ref().and_then(|seat| draft.devices.iter().position(|device| *device == seat.device));
        let at = at.unwrap_or(0);
        letter.places = letter.places.get(at).copied().into_iter().collect();
        draft.devices = draft.devices.get(at).cloned().into_iter().collect();
        letter.kind = Kind::Queue;
        let payload = std::mem::replace(&mut letter.body, RawValue::NULL.to_owned());
        draft.queue = Some(Queued { seat, payload });
        draft
    }
}

/// One inbox stands for all of an agent: a place the letter gets anyway, if there is one.
fn checked(known: &Known, places: &[Place]) -> Option<(i64, i64)> {
    let placed = known.iter().find(|inbox| places.iter().any(|place| place.inbox == inbox.id));
    placed.or(known.first()).map(|inbox| (inbox.id, inbox.changes))
}

impl Sent {
    pub fn of(letter: &Letter, status: &'static str) -> Sent {
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
