//! A message to an agent of another domain: sent there, and then kept for the sender's own other devices.

use super::super::ledger::{Changes, Done, Draft, Write};
use super::super::letter::Letter;
use super::super::sending::{SendParams, Sent, Status};
use super::super::store::json;
use super::super::turns::{Turn, in_turn};
use super::super::{Error, Message, envelope};
use super::outbox::{Kept, New, Way};
use super::{Crossing, unreadable};
use crate::kernel::{Caller, RpcError, Session, codes};
use futures_util::future::join;
use serde_json::value::to_raw_value;

/// How often the sender's own copies are addressed anew because its devices came and went meanwhile.
const TRIES: usize = 3;

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
        let turn = match envelope::classify(&params.payload) {
            envelope::Kind::Plain => None,
            _ => self.turn(&crossing.session.aid).await,
        };
        let now = self.clock.now_ms();
        let (draft, changes) = self.draft_own(crossing.session, &params, now).await?;
        let message_id = draft.letter.message_id.clone();
        params.message_id = Some(message_id.clone());

        let sent = in_turn(self.pass_on(&crossing, &mut params, &draft.letter), turn).await?;

        self.keep_own(crossing.session, &params, draft, changes).await?;
        Ok(Sent { message_id, cross_domain: true, target_issuer: Some(crossing.issuer.to_owned()), ..sent })
    }

    /// Sends it there now, or keeps it for later where that is this domain's policy. Behind what waits already, it waits.
    async fn pass_on(
        &self,
        crossing: &Crossing<'_>,
        params: &mut SendParams,
        letter: &Letter,
    ) -> Result<Sent, Error> {
        let Some(keep) = self.keep_abroad else {
            return self.send_there(crossing, params, letter, None).await;
        };
        let nth = self.outbox.place(letter.at);
        match self.outbox.way(crossing.issuer).await? {
            Way::Full => return self.send_there(crossing, params, letter, None).await,
            Way::Behind => {}
            Way::Direct(turn) => match self.send_there(crossing, params, letter, turn).await {
                Err(error) if error.is_unreachable() => {}
                sent => return sent,
            },
        }
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX / 2);
        self.keep_for_later(crossing, params, letter, (nth, keep)).await
    }

    async fn send_there(
        &self,
        crossing: &Crossing<'_>,
        params: &SendParams,
        letter: &Letter,
        turn: Option<Turn<String>>,
    ) -> Result<Sent, Error> {
        // It has its place on the way there before anything is waited for.
        let both = join(
            self.ask_abroad(crossing, "message.send", params, None),
            self.note(crossing, params, letter.at),
        );
        let (sent, noted): (Result<Sent, Error>, _) = in_turn(both, turn).await;
        let sent = sent?;
        if !sent.is_safe() {
            return Err(unreadable(crossing.issuer, &"a number in it is too large").into());
        }
        noted?;
        Ok(sent)
    }

    /// Writes down that its sender wrote there. What is kept in memory has no row that could be taken back.
    async fn note(&self, crossing: &Crossing<'_>, params: &SendParams, now: i64) -> Result<(), Error> {
        if self.ttl_ms(crossing.session, params).is_none() {
            self.targets.note(&crossing.session.aid, crossing.issuer, now).await?;
        }
        Ok(())
    }

    async fn keep_for_later(
        &self,
        crossing: &Crossing<'_>,
        params: &mut SendParams,
        letter: &Letter,
        (nth, keep): (i64, i64),
    ) -> Result<Sent, Error> {
        let session = crossing.session;
        // When it goes, there will be less of its time left.
        let ttl_until = self.ttl_ms(session, params).map(|ttl| letter.at + ttl);
        let ttl = params.ttl.take();
        let kept = Kept {
            caller_aid: session.aid.clone(),
            device_id: session.device.clone(),
            slot_id: session.slot.clone(),
            params: to_raw_value(params).map_err(RpcError::internal)?,
        };
        params.ttl = ttl;
        let until = letter.at.saturating_add(keep);
        let new = New {
            key: letter.key,
            issuer: crossing.issuer.to_owned(),
            nth,
            at: letter.at,
            expires_at: ttl_until.map_or(until, |ttl_until| ttl_until.min(until)),
            ttl_until,
            data: json(&kept),
        };
        let expires_at = self.outbox.put(new).await?;
        let mode = params.mode()?.unwrap_or_default();
        Ok(Sent {
            seq: None,
            delivery_mode: mode,
            expires_at: Some(expires_at),
            ..Sent::of(letter, Status::Queued)
        })
    }

    /// The copies for the sender's own devices. What is wrong with the message is found here, before it goes anywhere.
    async fn draft_own(
        &self,
        session: &Session,
        params: &SendParams,
        now: i64,
    ) -> Result<(Draft, Changes), Error> {
        match self.draft(session, params, None, now).await {
            Err(Error::NoDevice { .. }) => {
                // What this process remembers of the sender's devices may be old.
                self.inboxes.forget(&session.aid);
                self.draft(session, params, None, now).await
            }
            drafted => drafted,
        }
    }

    async fn keep_own(
        &self,
        session: &Session,
        params: &SendParams,
        mut draft: Draft,
        mut changes: Changes,
    ) -> Result<(), Error> {
        for _ in 0..TRIES {
            if draft.letter.places.is_empty() {
                return Ok(());
            }
            let at = draft.letter.at;
            if let Some(ttl) = self.ttl_ms(session, params) {
                self.send_fleeting(session, draft, at + ttl).await?;
                return Ok(());
            }
            match self.ledger.write(Write::Send(Box::new(draft), changes)).await? {
                Done::Stale => {
                    self.inboxes.forget(&session.aid);
                    (draft, changes) = self.draft(session, params, None, at).await?;
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
