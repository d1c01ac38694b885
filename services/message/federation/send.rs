//! A message to an agent of another domain: sent there, and then stored for the sender's own other devices.

use super::outbox::SendWhen;
use super::rows::{NewOutboxRow, OutboxData};
use super::{PeerCall, read, unreadable};
use crate::kernel::{Caller, RpcError, Session, codes};
use crate::message::sending::lookup_queue::{LookupGuard, begin_then_release};
use crate::message::sending::params::{SendParams, SendStatus, Sent};
use crate::message::store::bind::json;
use crate::message::store::stored_message::MessageKey;
use crate::message::store::write::{DeviceChanges, NewMessage, Write, WriteOutcome};
use crate::message::{Error, Message, envelope};
use futures_util::future::{OptionFuture, join};
use serde_json::value::to_raw_value;
use std::time::Duration;

/// How often the sender's own copies are addressed anew because its devices changed meanwhile.
const TRIES: usize = 3;

/// A message that is being sent to another domain.
struct OutboundMessage<'a> {
    call: PeerCall<'a>,
    message_id: String,
    at: i64,
}

impl Message {
    /// What fails between the other domain's answer and ours is repaired by sending again: the message id is made before the
    /// first try, so there it is a duplicate, and here the copies are stored if they were not.
    pub(in super::super) async fn send_to_peer(
        &self,
        caller: &Caller,
        mut params: SendParams,
    ) -> Result<Sent, Error> {
        let to = params.to.clone();
        let Some(call) = self.peer_call(caller, &to)? else {
            return Err(Error::Foreign(to.issuer().to_owned()));
        };
        if envelope::classify(&params.payload) != envelope::PayloadKind::Plain {
            // Boxed, because most messages do without.
            return Box::pin(self.send_encrypted(call, params)).await;
        }
        params.mode()?;
        let at = self.clock.now_ms();
        let given = params.message_id().map(str::to_owned);
        let message_id = given.unwrap_or_else(|| self.ids.time_ordered(at));
        self.pass_on(&OutboundMessage { call, message_id, at }, &mut params).await
    }

    /// An encrypted message, of which the sender's other devices get copies.
    async fn send_encrypted(&self, call: PeerCall<'_>, mut params: SendParams) -> Result<Sent, Error> {
        let session = call.session;
        let turn = self.wait_for_lookup(&session.aid).await;
        let at = self.clock.now_ms();
        let (draft, changes) = self.draft_own(session, &params, at).await?;
        let outbound = OutboundMessage { call, message_id: draft.message.message_id.clone(), at };

        let sent = begin_then_release(self.pass_on(&outbound, &mut params), turn).await?;

        self.store_own(session, &params, draft, changes).await?;
        Ok(sent)
    }

    /// Sends it now, or stores it in the outbox where that is this domain's policy. What comes after a message that waits,
    /// waits, too.
    async fn pass_on(&self, outbound: &OutboundMessage<'_>, params: &mut SendParams) -> Result<Sent, Error> {
        params.message_id = Some(outbound.message_id.clone());
        let sent = match self.peer_retention {
            None => self.send_now(outbound, params, None).await?,
            Some(keep) => Box::pin(self.send_or_store(outbound, params, keep)).await?,
        };
        Ok(Sent {
            message_id: outbound.message_id.clone(),
            cross_domain: true,
            target_issuer: Some(outbound.call.issuer.to_owned()),
            ..sent
        })
    }

    async fn send_or_store(
        &self,
        outbound: &OutboundMessage<'_>,
        params: &mut SendParams,
        keep: Duration,
    ) -> Result<Sent, Error> {
        let nth = self.outbox.next_position(outbound.at);
        let mut tried = None;
        match self.outbox.send_when(outbound.call.issuer).await? {
            SendWhen::NowOrNever => return self.send_now(outbound, params, None).await,
            SendWhen::Later => {}
            SendWhen::Now(turn) => match self.send_now(outbound, params, turn).await {
                Err(error) if error.is_unreachable() => {}
                // It is sent again with the same id: if it arrived, it is a duplicate there.
                Err(error) if error.link_lost() => tried = Some(self.clock.now_ms()),
                sent => return sent,
            },
        }
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX / 2);
        self.store_for_later(outbound, params, (nth, keep), tried).await
    }

    async fn send_now(
        &self,
        outbound: &OutboundMessage<'_>,
        params: &SendParams,
        turn: Option<LookupGuard<String>>,
    ) -> Result<Sent, Error> {
        let OutboundMessage { call, at, .. } = outbound;
        let asking = self.begin_at_peer(call, "message.send", params, None)?;
        // A message with a ttl is only in memory there: it cannot be recalled.
        let is_stored = self.ttl_ms(call.session, params).is_none();
        let remember = || self.recent_peers.remember(&call.session.aid, call.issuer, *at);
        let remembering = is_stored.then(remember).flatten();
        // The message is in the order of the peer's queue before anything is awaited.
        let (answer, remembered) =
            begin_then_release(join(asking, OptionFuture::from(remembering)), turn).await;

        let sent: Sent = read(call, &answer?)?;
        if !sent.is_safe() {
            return Err(unreadable(call.issuer, &"a number in it is too large").into());
        }
        remembered.transpose()?;
        Ok(sent)
    }

    async fn store_for_later(
        &self,
        outbound: &OutboundMessage<'_>,
        params: &mut SendParams,
        (nth, keep): (i64, i64),
        tried: Option<i64>,
    ) -> Result<Sent, Error> {
        let OutboundMessage { call: PeerCall { session, issuer, .. }, message_id, at } = outbound;
        // When it is sent, less of its ttl is left: the rest is computed then.
        let ttl_until = self.ttl_ms(session, params).map(|ttl| at + ttl);
        let ttl = params.ttl.take();
        let data = OutboxData {
            caller_aid: session.aid.clone(),
            device_id: session.device.clone(),
            slot_id: session.slot.clone(),
            params: to_raw_value(params).map_err(RpcError::internal)?,
        };
        params.ttl = ttl;
        let until = at.saturating_add(keep);
        let new = NewOutboxRow {
            key: MessageKey::new(&session.aid, message_id),
            issuer: (*issuer).to_owned(),
            nth,
            at: *at,
            expires_at: ttl_until.map_or(until, |ttl_until| ttl_until.min(until)),
            ttl_until,
            tried,
            data: json(&data),
        };
        let expires_at = self.outbox.put(new).await?;
        let mode = params.mode()?.unwrap_or_default();
        Ok(Sent { expires_at: Some(expires_at), ..Sent::new(message_id, *at, SendStatus::Queued, mode) })
    }

    /// The copies for the sender's own devices. Made before the message is sent, so that one that is not valid is refused
    /// here.
    async fn draft_own(
        &self,
        session: &Session,
        params: &SendParams,
        now: i64,
    ) -> Result<(NewMessage, DeviceChanges), Error> {
        match self.new_message(session, params, None, now).await {
            Err(Error::NoDevice { .. }) => {
                // What this process has cached of the sender's devices may be old.
                self.inboxes.forget(&session.aid);
                self.new_message(session, params, None, now).await
            }
            drafted => drafted,
        }
    }

    async fn store_own(
        &self,
        session: &Session,
        params: &SendParams,
        mut draft: NewMessage,
        mut changes: DeviceChanges,
    ) -> Result<(), Error> {
        for _ in 0..TRIES {
            if draft.message.entries.is_empty() {
                return Ok(());
            }
            let at = draft.message.at;
            if let Some(ttl) = self.ttl_ms(session, params) {
                self.send_volatile(session, draft, at + ttl).await?;
                return Ok(());
            }
            match self.ledger.write(Write::Send(Box::new(draft), changes)).await? {
                WriteOutcome::DevicesChanged => {
                    self.inboxes.forget(&session.aid);
                    (draft, changes) = self.new_message(session, params, None, at).await?;
                }
                _ => return Ok(()),
            }
        }
        let sentence = format!("the devices of {} keep changing, send the message again", session.aid);
        Err(RpcError::new(codes::UNAVAILABLE, sentence).into())
    }
}

impl Sent {
    /// Some clients disconnect on a number they cannot represent.
    fn is_safe(&self) -> bool {
        let numbers = [self.seq, Some(self.timestamp), self.created_at, self.expires_at];
        numbers.into_iter().flatten().all(|number| (0..1 << 53).contains(&number))
    }
}
