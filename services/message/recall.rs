//! `message.recall`: a sender takes back what it said less than two minutes ago.

use super::ledger::{Done, Outcome, Recall, Write};
use super::letter::Key;
use super::tail::Span;
use super::{Error, Message};
use crate::kernel::{Aid, Caller, DeviceId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

const MOST: usize = 100;
const WINDOW_MS: i64 = 120_000;
/// How far back a stranger's letter is looked for, to tell it from one that never was.
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
    error: &'static str,
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

        let (accepted, now) = (message_ids.len(), self.clock.now_ms());
        let (recipients, devices) = self.recipients(&session.aid, &message_ids).await?;
        let recall = Recall {
            from: session.aid.clone(),
            device: session.device.clone(),
            message_ids,
            now,
            since: now - WINDOW_MS,
            notice_ids: (0..recipients).map(|_| self.ids.time_ordered(now)).collect(),
            devices,
        };
        let Done::Recalled(outcomes) = self.ledger.write(Write::Recall(Box::new(recall))).await? else {
            unreachable!("a recall is answered as one")
        };

        let mut errors = Vec::new();
        for (message_id, outcome) in outcomes {
            let error = match outcome {
                Outcome::Recalled => continue,
                Outcome::NotFound if self.is_anothers(&session.aid, &message_id).await? => "not_sender",
                Outcome::NotFound => "not_found",
                Outcome::AlreadyRecalled => "already_recalled",
                Outcome::Expired => "expired",
            };
            errors.push(Refused { message_id, error });
        }
        let recalled = accepted - errors.len();
        Ok(Recalled { success: true, accepted, recalled, errors: (!errors.is_empty()).then_some(errors) })
    }

    /// How many agents these letters went to, and the devices behind their inboxes.
    async fn recipients(
        &self,
        from: &Aid,
        message_ids: &[String],
    ) -> Result<(usize, HashMap<i64, DeviceId>), Error> {
        let keys: Vec<Key> = message_ids.iter().map(|id| Key::new(from, id)).collect();
        let letters = self.store.find_all(&keys).await?;
        let recipients: BTreeSet<&Aid> = letters.values().map(|letter| &letter.to).collect();
        let mut devices = HashMap::new();
        for aid in recipients.iter().copied().chain([from]) {
            let inboxes = self.inboxes.of(aid).await?;
            devices.extend(inboxes.iter().map(|inbox| (inbox.id, inbox.device.clone())));
        }
        Ok((recipients.len(), devices))
    }

    /// Whether a letter of this name is among the newest that the caller got from others.
    async fn is_anothers(&self, aid: &Aid, message_id: &str) -> Result<bool, Error> {
        for inbox in self.inboxes.of(aid).await?.iter() {
            let span = Span { inbox: inbox.id, after: 0, before: i64::MAX, sender: None };
            let newest = self.store.last(span, LOOK_BACK).await?;
            if newest.iter().any(|entry| entry.letter.message_id == message_id && entry.letter.from != *aid) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
