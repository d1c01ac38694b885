//! `message.recall`: a sender takes back what it said less than two minutes ago.

use super::federation::{RecallRefusal, RecalledAtPeers};
use super::ledger::{Done, Outcome, Recall, Write};
use super::stored_message::Key;
use super::tail::Span;
use super::{Error, Message};
use crate::kernel::{Aid, Caller, DeviceId, Session};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

const MOST: usize = 100;
const WINDOW_MS: i64 = 120_000;
/// How far back a stranger's message is looked for, to tell it from one that never was.
const LOOK_BACK: usize = 200;

#[derive(Deserialize)]
pub(super) struct RecallParams {
    message_ids: Vec<String>,
}

#[derive(Clone, Serialize)]
pub(super) struct Recalled {
    success: bool,
    accepted: usize,
    recalled: usize,
    errors: Option<Vec<Refused>>,
}

#[derive(Clone, Serialize)]
pub(super) struct Refused {
    message_id: String,
    error: RecallRefusal,
}

impl Message {
    pub(super) async fn recall(
        self: Arc<Self>,
        caller: Caller,
        params: RecallParams,
    ) -> Result<Recalled, Error> {
        let session = caller.speaker()?;
        let RecallParams { message_ids } = params;
        if message_ids.len() > MOST {
            return Err(Error::Param(format!("params.message_ids: at most {MOST} are taken")));
        }

        let accepted = message_ids.len();
        let (abroad, here) = self.recall_everywhere(&caller, session, message_ids).await?;
        if let Some(error) = abroad.failed {
            return Err(error);
        }

        let mut errors = Vec::new();
        for (message_id, outcome) in here {
            let error = match outcome {
                Outcome::Recalled => continue,
                Outcome::NotFound if self.is_anothers(&session.aid, &message_id).await? => {
                    RecallRefusal::NotSender
                }
                Outcome::NotFound => RecallRefusal::NotFound,
                Outcome::AlreadyRecalled => RecallRefusal::AlreadyRecalled,
                Outcome::Expired => RecallRefusal::Expired,
            };
            errors.push(Refused { message_id, error });
        }
        let there = abroad.outcomes.into_iter();
        errors.extend(there.filter_map(|(message_id, error)| Some(Refused { message_id, error: error? })));
        let recalled = accepted - errors.len();
        Ok(Recalled { success: true, accepted, recalled, errors: (!errors.is_empty()).then_some(errors) })
    }

    /// Asks the domains that some of them went to, and looks for the others here.
    async fn recall_everywhere(
        &self,
        caller: &Caller,
        session: &Session,
        message_ids: Vec<String>,
    ) -> Result<(RecalledAtPeers, Vec<(String, Outcome)>), Error> {
        let abroad = self.recall_at_peers(caller, &message_ids).await?;
        let (there, rest): (Vec<_>, Vec<_>) =
            message_ids.into_iter().partition(|id| abroad.outcomes.contains_key(id));
        // While the recipient may have it, the sender's own devices keep it.
        let here = rest.into_iter().filter(|id| !abroad.open.contains(id)).collect();
        self.recall_copies(session, &there, &abroad).await?;
        let here = self.recall_here(session, here, self.clock.now_ms() - WINDOW_MS).await?;
        Ok((abroad, here))
    }

    /// What was taken back over there is taken back on the sender's own devices, if they have copies. How much time there
    /// was for it is decided over there.
    async fn recall_copies(
        &self,
        session: &Session,
        there: &[String],
        abroad: &RecalledAtPeers,
    ) -> Result<(), Error> {
        let gone = |id: &&String| {
            matches!(abroad.outcomes.get(*id), Some(None | Some(RecallRefusal::AlreadyRecalled)))
        };
        let gone: Vec<String> = there.iter().filter(gone).cloned().collect();
        if !gone.is_empty() {
            self.recall_here(session, gone, i64::MIN).await?;
        }
        Ok(())
    }

    async fn recall_here(
        &self,
        session: &Session,
        message_ids: Vec<String>,
        since: i64,
    ) -> Result<Vec<(String, Outcome)>, Error> {
        if message_ids.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.clock.now_ms();
        let (recipients, devices) = self.recipients(&session.aid, &message_ids).await?;
        let recall = Recall {
            from: session.aid.clone(),
            device: session.device.clone(),
            message_ids,
            now,
            since,
            notice_ids: (0..recipients).map(|_| self.ids.time_ordered(now)).collect(),
            devices,
        };
        let Done::Recalled(outcomes) = self.ledger.write(Write::Recall(Box::new(recall))).await? else {
            unreachable!("a recall is answered as one")
        };
        Ok(outcomes)
    }

    /// How many agents these messages went to, and the devices behind their inboxes.
    async fn recipients(
        &self,
        from: &Aid,
        message_ids: &[String],
    ) -> Result<(usize, HashMap<i64, DeviceId>), Error> {
        let keys: Vec<Key> = message_ids.iter().map(|id| Key::new(from, id)).collect();
        let messages = self.store.find_all(&keys).await?;
        let recipients: BTreeSet<&Aid> = messages.values().map(|message| &message.to).collect();
        let mut devices = HashMap::new();
        for aid in recipients.iter().copied().chain([from]) {
            let inboxes = self.inboxes.of(aid).await?;
            devices.extend(inboxes.iter().map(|inbox| (inbox.id, inbox.device.clone())));
        }
        Ok((recipients.len(), devices))
    }

    /// Whether a message of this name is among the newest that the caller got from others.
    async fn is_anothers(&self, aid: &Aid, message_id: &str) -> Result<bool, Error> {
        for inbox in self.inboxes.of(aid).await?.iter() {
            let span = Span { inbox: inbox.id, after: 0, before: i64::MAX, sender: None };
            let newest = self.store.last(span, LOOK_BACK).await?;
            if newest.iter().any(|entry| entry.message.message_id == message_id && entry.message.from != *aid)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
