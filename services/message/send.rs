//! `message.send`: stored for every device of the recipient, then answered, then published.

use super::envelope::{self, Envelope, PayloadKind};
use super::sending::address::{AddressedEntries, Sides};
use super::sending::echo;
use super::sending::lookup_queue::{LookupGuard, begin_then_release};
use super::sending::params;
use super::sending::row_limit;
use super::sending::tool_call::is_tool_call;
use super::store::inboxes::{Inbox, InboxList};
use super::store::stored_message::{InboxEntry, MessageKey, MessageKind, StoredMessage};
use super::store::write::{DeviceChanges, NewMessage, QueueDelivery, SendOutcome};
use super::{Error, MessageService};
use kernel::{AccountFull, Aid, Caller, CallingAgent, Mode, Payer, PresentSession, RpcError, codes};
use proto_schemas::requests::ca;
use proto_schemas::requests::message::{Send, SendStatus, SentMessage};
use serde_json::value::RawValue;
use std::sync::Arc;

/// How often a message is addressed anew because devices came and went meanwhile.
const TRIES: usize = 3;

impl MessageService {
    pub(super) async fn send(self: Arc<Self>, caller: Caller, send: Send) -> Result<SentMessage, Error> {
        let caller = self.with_device(caller).await?;
        let session = caller.calling_agent()?;
        params::check(&send)?;
        if !self.is_ours(&send.to) {
            // Boxed, so that the future of a message within the domain is not as large as that of one to another domain.
            return Box::pin(self.send_to_peer(&caller, send)).await;
        }
        let mut tries = 0;
        loop {
            tries += 1;
            match self.send_once(session, &send).await {
                Ok(Some(sent)) => return Ok(sent),
                Err(error) if tries > TRIES || !error.is_about_devices() => return Err(error),
                Ok(None) if tries > TRIES => return Err(RpcError::plain(codes::UNAVAILABLE).into()),
                // The inboxes this process has cached may be old.
                Ok(None) | Err(_) => {
                    self.inboxes.forget(&send.to);
                    self.inboxes.forget(&session.aid);
                }
            }
        }
    }

    /// None if the message was addressed to other devices than its recipient has.
    async fn send_once(&self, session: &CallingAgent, send: &Send) -> Result<Option<SentMessage>, Error> {
        let ttl = self.ttl_ms(session, send);
        if ttl.is_some() && self.shared.is_some() {
            // The cached inboxes are not checked in a commit here.
            self.inboxes.forget(&send.to);
            self.inboxes.forget(&session.aid);
        }
        let guard = self.wait_for_lookup(&send.to).await;
        let recipient = self.recipient(&send.to).await?;
        let now = self.clock.now_ms();
        let (new, changes) = self.new_message(session, send, Some(&recipient), now).await?;
        if let Some(ttl) = ttl {
            drop(guard); // Without seqs there is no order to keep.
            return Ok(Some(Box::pin(self.send_volatile(session, new, now + ttl)).await?));
        }

        let (key, kept, payer) = (new.message.key, new.message.kept(), Payer::of(session, &self.issuer));
        if let Err(full) = self.quotas.reserve(&payer, Some(&send.to), kept) {
            return Box::pin(self.refuse_or_repeat(key, full)).await;
        }
        let written = begin_then_release(self.ledger.send(new, changes), guard).await;
        if !matches!(written, Ok(SendOutcome::Sent(_))) {
            self.quotas.release(&payer, Some(&send.to), kept);
        }
        let (message, duplicate) = match written? {
            SendOutcome::Sent(message) => (message, false),
            SendOutcome::Duplicate(message) => (message, true),
            SendOutcome::DevicesChanged => return Ok(None),
            SendOutcome::TooManyToolCalls { retry_after_ms } => {
                return Err(Error::TooManyToolCalls { retry_after_ms });
            }
        };
        let status = match duplicate {
            true => SendStatus::Duplicate,
            false if self.is_delivered(&message, &recipient) => SendStatus::Delivered,
            false => SendStatus::Sent,
        };
        Ok(Some(params::sent(&message, status)))
    }

    /// A message that is too much may have been stored before, and its answer lost: then that is the answer.
    async fn refuse_or_repeat(
        &self,
        key: MessageKey,
        full: AccountFull,
    ) -> Result<Option<SentMessage>, Error> {
        match self.store.find(&key).await? {
            Some(message) => Ok(Some(params::sent(&message, SendStatus::Duplicate))),
            None => Err(full.into()),
        }
    }

    /// None where the inboxes of the recipient are cached and no other message waits for them: there is nothing to wait for.
    pub(super) async fn wait_for_lookup(&self, to: &Aid) -> Option<LookupGuard<Aid>> {
        if self.inboxes.is_cached(to) && !self.lookups.is_busy(to) {
            return None;
        }
        Some(self.lookups.wait(to.clone()).await)
    }

    /// Whether a device whose inbox got the message is connected.
    fn is_delivered(&self, message: &StoredMessage, recipient: &InboxList) -> bool {
        let received = |session: &PresentSession| {
            let has = |inbox: &Inbox| inbox.device == session.device && message.entry(inbox.id).is_some();
            recipient.iter().any(has)
        };
        self.presence.sessions(&message.to).iter().any(received)
    }

    /// The inboxes of an agent of this domain. A registered agent can be sent messages before it first connects.
    async fn recipient(&self, to: &Aid) -> Result<InboxList, Error> {
        let inboxes = self.inboxes.cached(to).await?;
        if inboxes.iter().any(|inbox| inbox.joined) {
            return Ok(inboxes);
        }
        // Boxed, so that the future of most messages is not as large as that of one to an agent without devices.
        Box::pin(self.first_inbox(to, inboxes)).await
    }

    /// The inbox that the first device of an agent will get (decision 18). Asked each time: earlier builds gave one to the names of
    /// services, too.
    async fn first_inbox(&self, to: &Aid, inboxes: InboxList) -> Result<InboxList, Error> {
        if !self.is_agent(to).await? {
            return Err(Error::NoRecipient(to.clone()));
        }
        match inboxes.is_empty() {
            true => Ok(self.inboxes.create_for_first_device(to).await?),
            false => Ok(inboxes),
        }
    }

    /// Whether an agent of this domain has this name. Services have certificates, too, for which no agent signs.
    pub(super) async fn is_agent(&self, aid: &Aid) -> Result<bool, RpcError> {
        let key_purpose = Some("signing".to_owned());
        let wanted = ca::GetCert { key_purpose, ..ca::GetCert::of_aid(aid.as_str()) };
        Ok(self.mesh.known_cert("message", &wanted).await?.is_some())
    }

    /// A message without its seqs, with the entries in inboxes of this domain: the inboxes of a recipient in another domain are
    /// there, and so are those of a sender from another domain.
    pub(super) async fn new_message(
        &self,
        session: &CallingAgent,
        send: &Send,
        recipient: Option<&InboxList>,
        now: i64,
    ) -> Result<(NewMessage, DeviceChanges), Error> {
        let sessions = self.presence.sessions(&send.to);
        let mode =
            params::mode(send)?.or(sessions.first().map(|session| session.delivery.mode)).unwrap_or_default();
        let target = recipient.map(|inboxes| params::target(send, inboxes)).transpose()?.flatten();
        let (payload_kind, is_ours) = (envelope::classify(&send.payload), self.is_ours(&session.aid));
        let own = match is_ours && payload_kind != PayloadKind::Plain {
            true => Some(self.inboxes.cached(&session.aid).await?),
            false => None,
        };
        let mut addressed = AddressedEntries::new(session, is_ours, &sessions);
        let sides = Sides { to: &send.to, recipient, own: own.as_ref(), target: target.as_ref() };
        let Contents { kind, message_id, body, copies } =
            contents(payload_kind, send, &mut addressed, sides, now)?;
        let AddressedEntries { entries, devices, .. } = addressed;
        let message_id = message_id.unwrap_or_else(|| self.ids.time_ordered(now));
        let message = StoredMessage {
            id: 0,
            key: MessageKey::new(&session.aid, &message_id),
            from: session.aid.clone(),
            device: session.device.clone(),
            message_id,
            at: now,
            kind,
            entries,
            attributes: params::attributes(send, kind),
            to: send.to.clone(),
            body,
            copies,
            recalled_at: None,
            targeted: target.is_some(),
        };
        row_limit::check(&message, &devices, self.ttl_ms(session, send).is_some())?;
        let both = [recipient, own.as_ref()].into_iter().flatten();
        let changes = DeviceChanges(both.filter_map(|inboxes| checked(inboxes, &message.entries)).collect());
        // The domain of the sender counts, once: its own copies of a message to another domain are no further calls.
        let tool_call = is_ours && recipient.is_some() && is_tool_call(send);
        let new = NewMessage { message, devices, queue: None, trace: session.trace.clone(), tool_call };
        // V1 and V2 messages name their devices: they go there whatever the mode.
        let queue = kind == MessageKind::Plain && mode == Mode::Queue && recipient.is_some();
        Ok((if queue { self.for_one_connection(new, &sessions, now) } else { new }, changes))
    }

    /// A queue message: one connection gets it, or the first device that pulls.
    fn for_one_connection(&self, mut new: NewMessage, sessions: &[PresentSession], now: i64) -> NewMessage {
        let message = &mut new.message;
        let session = self.queue_messages.choose(&message.to, &message.from, sessions, now);
        let position = session
            .as_ref()
            .and_then(|session| new.devices.iter().position(|device| *device == session.device))
            .unwrap_or(0);
        message.entries = message.entries.get(position).copied().into_iter().collect();
        new.devices = new.devices.get(position).cloned().into_iter().collect();
        message.kind = MessageKind::Queue;
        let payload = std::mem::replace(&mut message.body, RawValue::NULL.to_owned());
        new.queue = Some(QueueDelivery { session, payload });
        new
    }
}

/// What a message says, and what of it differs from device to device.
struct Contents {
    kind: MessageKind,
    message_id: Option<String>,
    body: Box<RawValue>,
    copies: Vec<Box<RawValue>>,
}

/// Reads a payload as far as it has to be, and addresses it to each device it is for.
fn contents(
    payload_kind: PayloadKind,
    send: &Send,
    addressed: &mut AddressedEntries<'_>,
    sides: Sides<'_>,
    now: i64,
) -> Result<Contents, Error> {
    let session = addressed.session;
    let given = params::message_id(send);
    let message_id = || given.map(str::to_owned);
    Ok(match payload_kind {
        PayloadKind::V2 => {
            let envelope = Envelope::open(&send.payload, session, &send.to, given, now)?;
            let copies = addressed.wrapped(&envelope, sides)?;
            Contents {
                kind: MessageKind::V2,
                message_id: Some(envelope.message_id),
                body: envelope.body,
                copies,
            }
        }
        PayloadKind::V1Split => {
            let copies = addressed.split(envelope::split(&send.payload)?, sides)?;
            Contents {
                kind: MessageKind::V1,
                message_id: message_id(),
                body: RawValue::NULL.to_owned(),
                copies,
            }
        }
        PayloadKind::Plain => {
            let body = match sides.recipient {
                Some(recipient) => {
                    addressed.all(recipient, sides.target);
                    echo::processed(&send.payload, send.encrypted == Some(true), session, now)
                }
                None => RawValue::NULL.to_owned(),
            };
            Contents { kind: MessageKind::Plain, message_id: message_id(), body, copies: Vec::new() }
        }
    })
}

/// The inbox by which the commit checks the devices of an agent: one that gets the message anyway, if there is one.
fn checked(inboxes: &InboxList, entries: &[InboxEntry]) -> Option<(i64, i64)> {
    let addressed = inboxes.iter().find(|inbox| entries.iter().any(|entry| entry.inbox == inbox.id));
    addressed.or(inboxes.first()).map(|inbox| (inbox.id, inbox.changes))
}
