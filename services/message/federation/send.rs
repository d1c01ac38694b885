//! A message to an agent of another domain: sent there, and then stored for the sender's own other devices.
//!
//! A tool call is counted before it is sent. Neither the row of the outbox nor the sender's copies could be stored with the
//! count: they come after the message may have arrived, too late to refuse it.

use super::outbox::{OutboxData, SendWhen};
use super::{PeerCall, read, unreadable};
use crate::sending::lookup_queue::{LookupGuard, begin_then_release};
use crate::sending::params;
use crate::sending::tool_call::is_tool_call;
use crate::store::bind::json;
use crate::store::stored_message::MessageKey;
use crate::store::write::CountOutcome;
use crate::{Error, MessageService, envelope};
use futures_util::future::{OptionFuture, join};
use kernel::{Aid, Caller, Kept, NewOutboxRow, Payer, RpcError};
use proto_schemas::requests::message::{Send, SendStatus, SentMessage};
use serde_json::value::to_raw_value;
use std::time::Duration;

/// A message that is being sent to another domain.
struct OutboundMessage<'a> {
    call: PeerCall<'a>,
    message_id: String,
    at: i64,
    tool_call: bool,
}

/// What a message to another domain waits for: its turn behind a tool call for the same recipient that is being counted.
type RecipientTurn = Option<LookupGuard<Aid>>;

impl MessageService {
    /// What fails between the other domain's answer and ours is repaired by sending again: the message id is made before the
    /// first try, so there it is a duplicate, and here the copies are stored if they were not.
    pub(in super::super) async fn send_to_peer(
        &self,
        caller: &Caller,
        mut send: Send,
    ) -> Result<SentMessage, Error> {
        let to = send.to.clone();
        let Some(call) = self.peer_call(caller, &to)? else {
            return Err(Error::Foreign(to.issuer().to_owned()));
        };
        let tool_call = is_tool_call(&send);
        let turn: RecipientTurn = match tool_call || self.lookups.is_busy(&to) {
            true => Some(self.lookups.wait(to.clone()).await),
            false => None,
        };
        if envelope::classify(&send.payload) != envelope::PayloadKind::Plain {
            // Boxed, because most messages do without.
            return Box::pin(self.send_encrypted(call, send, tool_call, turn)).await;
        }
        params::mode(&send)?;
        let at = self.clock.now_ms();
        let given = params::message_id(&send).map(str::to_owned);
        let message_id = given.unwrap_or_else(|| self.ids.time_ordered(at));
        self.pass_on(&OutboundMessage { call, message_id, at, tool_call }, &mut send, turn).await
    }

    /// An encrypted message, of which the sender's other devices get copies.
    async fn send_encrypted(
        &self,
        call: PeerCall<'_>,
        mut send: Send,
        tool_call: bool,
        turn: RecipientTurn,
    ) -> Result<SentMessage, Error> {
        let session = call.session;
        let own_turn = self.wait_for_lookup(&session.aid).await;
        let at = self.clock.now_ms();
        let (draft, changes) = self.draft_own(session, &send, at).await?;
        let message_id = draft.message.message_id.clone();
        let outbound = OutboundMessage { call, message_id, at, tool_call };
        // The copies are counted before the message is sent: afterwards they cannot be refused.
        let payer = Payer::of(session, &self.issuer);
        let own = (!draft.message.entries.is_empty()).then(|| draft.message.kept());
        if let Some(own) = own {
            self.quotas.reserve(&payer, Some(&session.aid), own)?;
        }

        let sent = begin_then_release(self.pass_on(&outbound, &mut send, turn), own_turn).await;
        let is_new = matches!(&sent, Ok(sent) if sent.status != SendStatus::Duplicate);
        if let Some(own) = own.filter(|_| !is_new) {
            self.quotas.release(&payer, Some(&session.aid), own);
        }
        let sent = sent?;

        self.store_own(session, &send, draft, changes).await?;
        Ok(sent)
    }

    async fn pass_on(
        &self,
        outbound: &OutboundMessage<'_>,
        send: &mut Send,
        turn: RecipientTurn,
    ) -> Result<SentMessage, Error> {
        send.message_id = Some(outbound.message_id.clone());
        let sent = match outbound.tool_call {
            // Boxed, because most messages are none.
            true => Box::pin(self.count_and_relay(outbound, send, turn)).await?,
            false => begin_then_release(self.relay(outbound, send), turn).await?,
        };
        Ok(SentMessage {
            message_id: outbound.message_id.clone(),
            delivery_mode: Some(sent.delivery_mode.unwrap_or_default()),
            cross_domain: Some(true),
            target_issuer: Some(outbound.call.issuer.to_owned()),
            ..sent
        })
    }

    /// What the other domain had already, or refuses, is not counted; where nobody knows whether it arrived, it is. Sent again
    /// under its id within the minute it counts once.
    async fn count_and_relay(
        &self,
        outbound: &OutboundMessage<'_>,
        send: &mut Send,
        turn: RecipientTurn,
    ) -> Result<SentMessage, Error> {
        let from = &outbound.call.session.aid;
        let key = MessageKey::new(from, &outbound.message_id);
        let counted = self.count_tool_call(from, key, outbound.at).await?;
        let sent = begin_then_release(self.relay(outbound, send), turn).await;
        if counted == CountOutcome::Counted && nothing_new_arrived(&sent) {
            self.uncount_tool_call(from, key).await;
        }
        sent
    }

    /// Sends it now, or stores it in the outbox where that is this domain's policy. What comes after a message that waits,
    /// waits, too.
    async fn relay(&self, outbound: &OutboundMessage<'_>, send: &mut Send) -> Result<SentMessage, Error> {
        match self.peer_retention {
            None => self.send_now(outbound, send, None).await,
            Some(keep) => Box::pin(self.send_or_store(outbound, send, keep)).await,
        }
    }

    async fn send_or_store(
        &self,
        outbound: &OutboundMessage<'_>,
        send: &mut Send,
        keep: Duration,
    ) -> Result<SentMessage, Error> {
        let position = self.outbox.rows.next_position(outbound.at);
        let mut tried = None;
        match self.outbox.send_when(outbound.call.issuer).await? {
            SendWhen::NowOrNever => return self.send_now(outbound, send, None).await,
            SendWhen::Later => {}
            SendWhen::Now(turn) => match self.send_now(outbound, send, turn).await {
                Err(error) if error.is_unreachable_now() => {}
                // It is sent again with the same id: if it arrived, it is a duplicate there.
                Err(error) if error.link_lost() => tried = Some(self.clock.now_ms()),
                sent => return sent,
            },
        }
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX / 2);
        self.store_for_later(outbound, send, (position, keep), tried).await
    }

    async fn send_now(
        &self,
        outbound: &OutboundMessage<'_>,
        send: &Send,
        turn: Option<LookupGuard<String>>,
    ) -> Result<SentMessage, Error> {
        let OutboundMessage { call, at, .. } = outbound;
        let asking = self.begin_at_peer(call, send, None)?;
        // A message with a ttl is only in memory there: it cannot be recalled.
        let is_stored = self.ttl_ms(call.session, send).is_none();
        let remember = || self.recent_peers.remember(&call.session.aid, call.issuer, *at);
        let remembering = is_stored.then(remember).flatten();
        // The message is in the order of the peer's queue before anything is awaited.
        let (answer, remembered) =
            begin_then_release(join(asking, OptionFuture::from(remembering)), turn).await;

        let sent: SentMessage = read(call, &answer?)?;
        if !is_safe(&sent) {
            return Err(unreadable(call.issuer, &"a number in it is too large").into());
        }
        remembered.transpose()?;
        Ok(sent)
    }

    async fn store_for_later(
        &self,
        outbound: &OutboundMessage<'_>,
        send: &mut Send,
        (position, keep): (i64, i64),
        tried_at: Option<i64>,
    ) -> Result<SentMessage, Error> {
        let OutboundMessage { call: PeerCall { session, issuer, .. }, message_id, at, .. } = outbound;
        // When it is sent, less of its ttl is left: the rest is computed then.
        let ttl_until = self.ttl_ms(session, send).map(|ttl| at + ttl);
        let ttl = send.ttl.take();
        let data = OutboxData {
            ttl_until,
            caller_aid: session.aid.clone(),
            device_id: session.device.clone(),
            slot_id: session.slot.clone(),
            params: to_raw_value(send).map_err(RpcError::internal)?,
        };
        send.ttl = ttl;
        let until = at.saturating_add(keep);
        let expires_at = ttl_until.map_or(until, |ttl_until| ttl_until.min(until));
        let new = NewOutboxRow {
            key: MessageKey::new(&session.aid, message_id).text(),
            destination: (*issuer).to_owned(),
            position,
            owner: session.aid.to_string(),
            created_at: *at,
            expires_at: Some(expires_at),
            tried_at,
            data: json(&data),
        };
        let (kept, payer) = (Kept::rows(1, new.data.len()), Payer::of(session, &self.issuer));
        self.quotas.reserve(&payer, None, kept)?;
        let put = self.outbox.put(new, expires_at).await;
        if put.is_err() {
            self.quotas.release(&payer, None, kept);
        }
        let expires_at = put?;
        let mode = params::mode(send)?.unwrap_or_default();
        let sent = SentMessage::new(message_id.clone(), *at, SendStatus::Queued, mode);
        Ok(SentMessage { expires_at: Some(expires_at), ..sent })
    }
}

/// Whether the other domain certainly has nothing by this call that it had not before.
fn nothing_new_arrived(sent: &Result<SentMessage, Error>) -> bool {
    match sent {
        Ok(sent) => sent.status == SendStatus::Duplicate,
        Err(Error::Other(error)) if error.data("federated").is_some() => true,
        Err(Error::Other(error)) if error.data("effect").is_some_and(|effect| effect == "none") => true,
        Err(error) => error.is_unreachable(),
    }
}

/// Some clients disconnect on a number they cannot represent.
fn is_safe(sent: &SentMessage) -> bool {
    let numbers = [sent.seq, Some(sent.timestamp), sent.created_at, sent.expires_at];
    numbers.into_iter().flatten().all(|number| (0..1 << 53).contains(&number))
}
