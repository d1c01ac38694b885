//! `message.recall`: a sender recalls messages that it sent not long ago.

use super::federation::RecalledAtPeers;
use super::store::stored_message::MessageKey;
use super::store::write::{Recall, RecallOutcome, RecallOutcomes};
use super::{Error, MessageService};
use kernel::{Aid, Caller, CallingAgent, DeviceId};
use proto_schemas::requests::message::{self, RecallFailure, RecallRefusal, RecallResult};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

const MAX_IDS: usize = 100;
/// How far back messages of other senders are looked through, to tell `not_sender` from `not_found`…
const LOOK_BACK: usize = 200;
/// … and how many of their senders are tried.
const MOST_SENDERS: usize = 32;

impl MessageService {
    pub(super) async fn recall(
        self: Arc<Self>,
        caller: Caller,
        message::Recall { message_ids, .. }: message::Recall,
    ) -> Result<RecallResult, Error> {
        let session = caller.calling_agent()?;
        if message_ids.len() > MAX_IDS {
            return Err(Error::Param(format!("message_ids must have at most {MAX_IDS} entries")));
        }

        let accepted = message_ids.len();
        let (at_peers, here) = self.recall_everywhere(&caller, session, message_ids).await?;
        if let Some(error) = at_peers.failed {
            return Err(error);
        }

        let mut errors = Vec::new();
        let not_found = here.iter().filter(|(_, outcome)| *outcome == RecallOutcome::NotFound);
        let not_found: Vec<&str> = not_found.map(|(message_id, _)| message_id.as_str()).collect();
        let of_others = self.of_others(&session.aid, &not_found).await?;
        for (message_id, outcome) in here {
            let error = match outcome {
                RecallOutcome::Recalled => continue,
                RecallOutcome::NotFound if of_others.contains(&message_id) => RecallRefusal::NotSender,
                RecallOutcome::NotFound => RecallRefusal::NotFound,
                RecallOutcome::AlreadyRecalled => RecallRefusal::AlreadyRecalled,
                RecallOutcome::Expired => RecallRefusal::Expired,
            };
            errors.push(RecallFailure { message_id, error });
        }
        let there = at_peers.outcomes.into_iter();
        errors.extend(
            there.filter_map(|(message_id, error)| Some(RecallFailure { message_id, error: error? })),
        );
        let recalled = accepted - errors.len();
        Ok(RecallResult { success: true, accepted, recalled, errors: (!errors.is_empty()).then_some(errors) })
    }

    /// Asks the domains that some of them were sent to, and looks for the others here.
    async fn recall_everywhere(
        &self,
        caller: &Caller,
        session: &CallingAgent,
        message_ids: Vec<String>,
    ) -> Result<(RecalledAtPeers, RecallOutcomes), Error> {
        let at_peers = self.recall_at_peers(caller, &message_ids).await?;
        let (there, rest): (Vec<_>, Vec<_>) =
            message_ids.into_iter().partition(|id| at_peers.outcomes.contains_key(id));
        // While the recipient's domain may still have it, it stays on the sender's own devices.
        let here = rest.into_iter().filter(|id| !at_peers.open.contains(id)).collect();
        self.recall_copies(session, &there, &at_peers).await?;
        let here = self.recall_here(session, here, self.recallable_since()).await?;
        Ok((at_peers, here))
    }

    /// Messages older than this stay.
    fn recallable_since(&self) -> i64 {
        if self.recall_ms == 0 { i64::MAX } else { self.clock.now_ms() - self.recall_ms }
    }

    /// What another domain recalled is recalled on the sender's own devices, too, if they have copies. Whether it was in time is
    /// decided by that domain.
    async fn recall_copies(
        &self,
        session: &CallingAgent,
        there: &[String],
        at_peers: &RecalledAtPeers,
    ) -> Result<(), Error> {
        let recalled = |id: &&String| {
            matches!(at_peers.outcomes.get(*id), Some(None | Some(RecallRefusal::AlreadyRecalled)))
        };
        let recalled: Vec<String> = there.iter().filter(recalled).cloned().collect();
        if !recalled.is_empty() {
            self.recall_here(session, recalled, i64::MIN).await?;
        }
        Ok(())
    }

    async fn recall_here(
        &self,
        session: &CallingAgent,
        message_ids: Vec<String>,
        since: i64,
    ) -> Result<RecallOutcomes, Error> {
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
        Ok(self.ledger.recall(recall).await?)
    }

    /// How many agents these messages went to, and the devices behind their inboxes.
    async fn recipients(
        &self,
        from: &Aid,
        message_ids: &[String],
    ) -> Result<(usize, HashMap<i64, DeviceId>), Error> {
        let keys: Vec<MessageKey> = message_ids.iter().map(|id| MessageKey::new(from, id)).collect();
        let messages = self.store.find_all(&keys).await?;
        let recipients: BTreeSet<&Aid> = messages.values().map(|message| &message.to).collect();
        let mut devices = HashMap::new();
        for aid in recipients.iter().copied().chain([from]) {
            let inboxes = self.inboxes.of(aid).await?;
            devices.extend(inboxes.iter().map(|inbox| (inbox.id, inbox.device.clone())));
        }
        Ok((recipients.len(), devices))
    }

    /// Those of these ids that messages have which are among the newest that an agent got from others. Asked once for all, and
    /// answered without reading what the messages say.
    async fn of_others(&self, aid: &Aid, message_ids: &[&str]) -> Result<HashSet<String>, Error> {
        if message_ids.is_empty() {
            return Ok(HashSet::new());
        }
        let (mut received, mut senders) = (HashSet::new(), Vec::<Aid>::new());
        for inbox in self.inboxes.of(aid).await?.iter() {
            for (id, sender) in self.store.newest_entries(inbox.id, LOOK_BACK).await? {
                if sender == aid.as_str() {
                    continue;
                }
                received.insert(id);
                if senders.len() < MOST_SENDERS && !senders.iter().any(|known| known.as_str() == sender) {
                    senders.extend(Aid::parse(&sender).ok());
                }
            }
        }
        let mut keys: HashMap<MessageKey, &str> = HashMap::new();
        for sender in &senders {
            keys.extend(message_ids.iter().map(|id| (MessageKey::new(sender, id), *id)));
        }
        let wanted: Vec<MessageKey> = keys.keys().copied().collect();
        let stored = self.store.ids_in_log(&wanted).await?;
        let of_others = stored.iter().filter(|(_, id)| received.contains(*id));
        Ok(of_others.filter_map(|(key, _)| keys.get(key).map(|id| (*id).to_owned())).collect())
    }
}
