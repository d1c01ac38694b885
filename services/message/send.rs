//! `message.send`: stored for every device of the recipient, then answered, then announced.

use super::address::{Addressed, Sides};
use super::envelope::{self, Envelope};
use super::inboxes::Known;
use super::ledger::{Changes, Done, Draft, Queued, Write};
use super::sending::{SendParams, Sent, Status};
use super::stored_message::{Key, Kind, Place, StoredMessage};
use super::turns::{Turn, in_turn};
use super::{Error, Message, echo};
use crate::kernel::{Aid, Caller, KnownCert, Mode, PresentSession, RpcError, Session, codes};
use serde_json::json;
use serde_json::value::RawValue;
use std::sync::Arc;

/// How often a message is addressed anew because devices came and went meanwhile.
const TRIES: usize = 3;

impl Message {
    pub(super) async fn send(self: Arc<Self>, caller: Caller, params: SendParams) -> Result<Sent, Error> {
        let session = caller.speaker()?;
        params.check()?;
        if !self.is_ours(&params.to) {
            // Boxed, so that a message to a neighbour does not carry the weight of a journey.
            return Box::pin(self.send_to_peer(&caller, params)).await;
        }
        let mut tries = 0;
        loop {
            tries += 1;
            match self.send_once(session, &params).await {
                Ok(Some(sent)) => return Ok(sent),
                Err(error) if tries > TRIES || !matches!(error, Error::NoDevice { .. }) => return Err(error),
                Ok(None) if tries > TRIES => return Err(RpcError::plain(codes::UNAVAILABLE).into()),
                // What this process remembers of their devices may be old.
                Ok(None) | Err(_) => {
                    self.inboxes.forget(&params.to);
                    self.inboxes.forget(&session.aid);
                }
            }
        }
    }

    /// Gives nothing if the message was addressed to other devices than its recipient has.
    async fn send_once(&self, session: &Session, params: &SendParams) -> Result<Option<Sent>, Error> {
        let ttl = self.ttl_ms(session, params);
        if ttl.is_some() && self.shared.is_some() {
            // No commit compares what these are addressed from.
            self.inboxes.forget(&params.to);
            self.inboxes.forget(&session.aid);
        }
        let turn = self.turn(&params.to).await;
        let recipient = self.recipient(&params.to).await?;
        let now = self.clock.now_ms();
        let (draft, changes) = self.draft(session, params, Some(&recipient), now).await?;
        if let Some(ttl) = ttl {
            drop(turn); // These have no numbers to be in the order of.
            return Ok(Some(Box::pin(self.send_fleeting(session, draft, now + ttl)).await?));
        }

        let write = Write::Send(Box::new(draft), changes);
        let (message, again) = match in_turn(self.ledger.write(write), turn).await? {
            Done::Sent(message) => (message, false),
            Done::Again(message) => (message, true),
            Done::Stale => return Ok(None),
            Done::Acked { .. } | Done::Recalled(_) => unreachable!("a message is answered as one"),
        };
        let status = match again {
            true => Status::Duplicate,
            false if self.is_heard(&message, &recipient) => Status::Delivered,
            false => Status::Sent,
        };
        Ok(Some(Sent::of(&message, status)))
    }

    /// Nothing where the recipient is known and nobody waits to look it up: there is nothing to wait for.
    pub(super) async fn turn(&self, to: &Aid) -> Option<Turn<Aid>> {
        if self.inboxes.knows(to) && !self.turns.are_taken(to) {
            return None;
        }
        Some(self.turns.take(to.clone()).await)
    }

    /// Whether a connection is there for one of the places the message got.
    fn is_heard(&self, message: &StoredMessage, recipient: &Known) -> bool {
        let placed = |seat: &PresentSession| {
            recipient.iter().any(|inbox| inbox.device == seat.device && message.place(inbox.id).is_some())
        };
        self.presence.sessions(&message.to).iter().any(placed)
    }

    /// The inboxes of an agent of this domain. Whoever is registered can be written to, before the first connection too.
    async fn recipient(&self, to: &Aid) -> Result<Known, Error> {
        let inboxes = self.inboxes.remembered(to).await?;
        if !inboxes.is_empty() {
            return Ok(inboxes);
        }
        // Boxed, so that a message to somebody known does not carry the weight of a first one.
        Box::pin(self.first_inbox(to)).await
    }

    async fn first_inbox(&self, to: &Aid) -> Result<Known, Error> {
        let known: KnownCert =
            self.mesh.ask(Caller::service("message"), "ca.get_cert", &json!({ "aid": to })).await?;
        if !known.found {
            return Err(Error::NoRecipient(to.clone()));
        }
        Ok(self.inboxes.wait_for_first(to).await?)
    }

    /// A message without its numbers, for whoever of the two lives here: a recipient elsewhere gets its rows over there,
    /// and so do the other devices of a sender from elsewhere.
    pub(super) async fn draft(
        &self,
        session: &Session,
        params: &SendParams,
        recipient: Option<&Known>,
        now: i64,
    ) -> Result<(Draft, Changes), Error> {
        let seats = self.presence.sessions(&params.to);
        let mode = params.mode()?.or(seats.first().map(|seat| seat.delivery.mode)).unwrap_or_default();
        let target = recipient.map(|known| params.target(known)).transpose()?.flatten();
        let (form, is_ours) = (envelope::classify(&params.payload), self.is_ours(&session.aid));
        let own = match is_ours && form != envelope::Kind::Plain {
            true => Some(self.inboxes.remembered(&session.aid).await?),
            false => None,
        };
        let mut addressed = Addressed::new(session, is_ours, &seats);
        let sides = Sides { to: &params.to, recipient, own: own.as_ref(), target: target.as_ref() };
        let Contents { kind, message_id, body, copies } = contents(form, params, &mut addressed, sides, now)?;
        let Addressed { places, devices, .. } = addressed;
        let message_id = message_id.unwrap_or_else(|| self.ids.time_ordered(now));
        let message = StoredMessage {
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
        let both = [recipient, own.as_ref()].into_iter().flatten();
        let changes = Changes(both.filter_map(|known| checked(known, &message.places)).collect());
        let draft = Draft { message, devices, queue: None, trace: session.trace.clone() };
        // V1 and V2 messages name their devices: they go there whatever the mode.
        let queued = kind == Kind::Plain && mode == Mode::Queue && recipient.is_some();
        Ok((if queued { self.queued(draft, &seats, now) } else { draft }, changes))
    }

    /// One connection gets it, or it waits in memory for whoever pulls first.
    fn queued(&self, mut draft: Draft, seats: &[PresentSession], now: i64) -> Draft {
        let message = &mut draft.message;
        let seat = self.rings.choose(&message.to, &message.from, seats, now);
        let at =
            seat.as_ref().and_then(|seat| draft.devices.iter().position(|device| *device == seat.device));
        let at = at.unwrap_or(0);
        message.places = message.places.get(at).copied().into_iter().collect();
        draft.devices = draft.devices.get(at).cloned().into_iter().collect();
        message.kind = Kind::Queue;
        let payload = std::mem::replace(&mut message.body, RawValue::NULL.to_owned());
        draft.queue = Some(Queued { seat, payload });
        draft
    }
}

/// What a message says, and what of it differs from device to device.
struct Contents {
    kind: Kind,
    message_id: Option<String>,
    body: Box<RawValue>,
    copies: Vec<Box<RawValue>>,
}

/// Reads a payload as far as it has to be, and gives a place to each device it is for.
fn contents(
    form: envelope::Kind,
    params: &SendParams,
    addressed: &mut Addressed<'_>,
    sides: Sides<'_>,
    now: i64,
) -> Result<Contents, Error> {
    let session = addressed.session;
    let given = params.message_id();
    let message_id = || given.map(str::to_owned);
    Ok(match form {
        envelope::Kind::V2 => {
            let envelope = Envelope::open(&params.payload, session, &params.to, given, now)?;
            let copies = addressed.sealed(&envelope, sides)?;
            Contents { kind: Kind::V2, message_id: Some(envelope.message_id), body: envelope.body, copies }
        }
        envelope::Kind::V1Split => {
            let copies = addressed.split(envelope::split(&params.payload)?, sides)?;
            Contents { kind: Kind::V1, message_id: message_id(), body: RawValue::NULL.to_owned(), copies }
        }
        envelope::Kind::Plain => {
            let body = match sides.recipient {
                Some(recipient) => {
                    addressed.all(recipient, sides.target);
                    echo::opened(&params.payload, params.encrypted == Some(true), session, now)
                }
                None => RawValue::NULL.to_owned(),
            };
            Contents { kind: Kind::Plain, message_id: message_id(), body, copies: Vec::new() }
        }
    })
}

/// One inbox stands for all of an agent: a place the message gets anyway, if there is one.
fn checked(known: &Known, places: &[Place]) -> Option<(i64, i64)> {
    let placed = known.iter().find(|inbox| places.iter().any(|place| place.inbox == inbox.id));
    placed.or(known.first()).map(|inbox| (inbox.id, inbox.changes))
}
