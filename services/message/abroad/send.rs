//! A message to an agent of another domain: sent there, and then kept for the sender's own other devices.

use super::outbox::{Kept, New, Way};
use super::{Crossing, read, unreadable};
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

/// How often the sender's own copies are addressed anew because its devices came and went meanwhile.
const TRIES: usize = 3;

/// A message on its way to another domain.
struct Outgoing<'a> {
    crossing: Crossing<'a>,
    message_id: String,
    at: i64,
}

impl Message {
    /// What goes wrong between the other domain's answer and ours is repaired by sending again: the name is made before
    /// the first try, so over there it is a duplicate, and here it is stored if it was not.
    pub(in super::super) async fn send_abroad(
        &self,
        caller: &Caller,
        mut params: SendParams,
    ) -> Result<Sent, Error> {
        let to = params.to.clone();
        let Some(crossing) = self.crossing(caller, &to)? else {
            return Err(Error::Foreign(to.issuer().to_owned()));
        };
        if envelope::classify(&params.payload) != envelope::PayloadKind::Plain {
            // Boxed, like all that most messages do without.
            return Box::pin(self.send_sealed(crossing, params)).await;
        }
        params.mode()?;
        let at = self.clock.now_ms();
        let given = params.message_id().map(str::to_owned);
        let message_id = given.unwrap_or_else(|| self.ids.time_ordered(at));
        self.pass_on(&Outgoing { crossing, message_id, at }, &mut params).await
    }

    /// One whose sender's other devices get copies.
    async fn send_sealed(&self, crossing: Crossing<'_>, mut params: SendParams) -> Result<Sent, Error> {
        let session = crossing.session;
        let turn = self.wait_for_lookup(&session.aid).await;
        let at = self.clock.now_ms();
        let (draft, changes) = self.draft_own(session, &params, at).await?;
        let outgoing = Outgoing { crossing, message_id: draft.message.message_id.clone(), at };

        let sent = begin_then_release(self.pass_on(&outgoing, &mut params), turn).await?;

        self.keep_own(session, &params, draft, changes).await?;
        Ok(sent)
    }

    /// Sends it there now, or keeps it for later where that is this domain's policy. Behind what waits already, it waits.
    async fn pass_on(&self, outgoing: &Outgoing<'_>, params: &mut SendParams) -> Result<Sent, Error> {
        params.message_id = Some(outgoing.message_id.clone());
        let sent = match self.peer_retention {
            None => self.send_there(outgoing, params, None).await?,
            Some(keep) => Box::pin(self.send_or_keep(outgoing, params, keep)).await?,
        };
        Ok(Sent {
            message_id: outgoing.message_id.clone(),
            cross_domain: true,
            target_issuer: Some(outgoing.crossing.issuer.to_owned()),
            ..sent
        })
    }

    async fn send_or_keep(
        &self,
        outgoing: &Outgoing<'_>,
        params: &mut SendParams,
        keep: Duration,
    ) -> Result<Sent, Error> {
        let nth = self.outbox.place(outgoing.at);
        let mut tried = None;
        match self.outbox.way(outgoing.crossing.issuer).await? {
            Way::Full => return self.send_there(outgoing, params, None).await,
            Way::Behind => {}
            Way::Direct(turn) => match self.send_there(outgoing, params, turn).await {
                Err(error) if error.is_unreachable() => {}
                // It goes again under its name: over there it counts once.
                Err(error) if error.broke_off() => tried = Some(self.clock.now_ms()),
                sent => return sent,
            },
        }
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX / 2);
        self.keep_for_later(outgoing, params, (nth, keep), tried).await
    }

    async fn send_there(
        &self,
        outgoing: &Outgoing<'_>,
        params: &SendParams,
        turn: Option<LookupGuard<String>>,
    ) -> Result<Sent, Error> {
        let Outgoing { crossing, at, .. } = outgoing;
        let asking = self.begin_abroad(crossing, "message.send", params, None)?;
        // What is kept in memory over there has no row that could be taken back.
        let lasts = self.ttl_ms(crossing.session, params).is_none();
        let noting = lasts.then(|| self.targets.note(&crossing.session.aid, crossing.issuer, *at)).flatten();
        // It has its place on the way there before anything is waited for.
        let (answer, noted) = begin_then_release(join(asking, OptionFuture::from(noting)), turn).await;

        let sent: Sent = read(crossing, &answer?)?;
        if !sent.is_safe() {
            return Err(unreadable(crossing.issuer, &"a number in it is too large").into());
        }
        noted.transpose()?;
        Ok(sent)
    }

    async fn keep_for_later(
        &self,
        outgoing: &Outgoing<'_>,
        params: &mut SendParams,
        (nth, keep): (i64, i64),
        tried: Option<i64>,
    ) -> Result<Sent, Error> {
        let Outgoing { crossing: Crossing { session, issuer }, message_id, at } = outgoing;
        // When it goes, there will be less of its time left.
        let ttl_until = self.ttl_ms(session, params).map(|ttl| at + ttl);
        let ttl = params.ttl.take();
        let kept = Kept {
            caller_aid: session.aid.clone(),
            device_id: session.device.clone(),
            slot_id: session.slot.clone(),
            params: to_raw_value(params).map_err(RpcError::internal)?,
        };
        params.ttl = ttl;
        let until = at.saturating_add(keep);
        let new = New {
            key: MessageKey::new(&session.aid, message_id),
            issuer: (*issuer).to_owned(),
            nth,
            at: *at,
            expires_at: ttl_until.map_or(until, |ttl_until| ttl_until.min(until)),
            ttl_until,
            tried,
            data: json(&kept),
        };
        let expires_at = self.outbox.put(new).await?;
        let mode = params.mode()?.unwrap_or_default();
        Ok(Sent { expires_at: Some(expires_at), ..Sent::new(message_id, *at, SendStatus::Queued, mode) })
    }

    /// The copies for the sender's own devices. What is wrong with the message is found here, before it goes anywhere.
    async fn draft_own(
        &self,
        session: &Session,
        params: &SendParams,
        now: i64,
    ) -> Result<(NewMessage, DeviceChanges), Error> {
        match self.new_message(session, params, None, now).await {
            Err(Error::NoDevice { .. }) => {
                // What this process remembers of the sender's devices may be old.
                self.inboxes.forget(&session.aid);
                self.new_message(session, params, None, now).await
            }
            drafted => drafted,
        }
    }

    async fn keep_own(
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
        Err(RpcError::plain(codes::UNAVAILABLE).into())
    }
}

impl Sent {
    /// Some clients hang up on a number they cannot hold.
    fn is_safe(&self) -> bool {
        let numbers = [self.seq, Some(self.timestamp), self.created_at, self.expires_at];
        numbers.into_iter().flatten().all(|number| (0..1 << 53).contains(&number))
    }
}
