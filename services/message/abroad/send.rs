//! A message to an agent of another domain: sent there, and then kept for the sender's own other devices.

use super::super::ledger::{Changes, Done, Draft, Write};
use super::super::sending::{SendParams, Sent, Storage};
use super::super::{Error, Message};
use super::Crossing;
use crate::kernel::{Caller, RpcError, Session, codes};

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
        let Some(crossing) = self.crossing(caller, &to)? else { return Err(Error::Foreign(to)) };
        let now = self.clock.now_ms();
        let (draft, changes) = self.draft_own(crossing.session, &params, now).await?;
        let message_id = draft.letter.message_id.clone();
        params.message_id = Some(message_id.clone());

        let sent = self.pass_on(&crossing, &params).await?;

        self.keep_own(crossing.session, &params, draft, changes).await?;
        Ok(Sent { message_id, cross_domain: true, target_issuer: Some(crossing.issuer.to_owned()), ..sent })
    }

    async fn pass_on(&self, crossing: &Crossing<'_>, params: &SendParams) -> Result<Sent, Error> {
        Ok(self.ask_abroad(crossing, "message.send", params, None).await?)
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
    /// Whether the message has a row that can be taken back.
    pub fn is_stored(&self) -> bool {
        self.storage != Some(Storage::Volatile)
    }
}
