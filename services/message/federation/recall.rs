//! Messages that were sent to other domains are recalled there.

use super::PeerCall;
use crate::store::stored_message::MessageKey;
use crate::{Error, MessageService};
use futures_util::future::join_all;
use kernel::{Caller, CallingAgent, OutboxWithdrawal, RpcError, codes};
use proto_schemas::requests::message::{Recall, RecallFailure, RecallRefusal};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What became of the messages that are stored by other domains.
#[derive(Default)]
pub(in super::super) struct RecalledAtPeers {
    /// `None` for those that were recalled, or the reason why not.
    pub outcomes: HashMap<String, Option<RecallRefusal>>,
    /// Those that may be stored by a domain that could not be asked.
    pub open: HashSet<String>,
    /// "A call spanning several domains … reports an error if any domain fails" (§7). Calling again completes it.
    pub failed: Option<Error>,
}

/// Which domains are asked to recall which messages.
#[derive(Default)]
struct RecallPlan<'a> {
    by_issuer: BTreeMap<String, Vec<&'a String>>,
    /// Those whose domain is known.
    sure: HashSet<&'a String>,
    /// Those in the outbox that are being sent, or may have arrived by an earlier try.
    waiting: HashMap<MessageKey, &'a String>,
}

/// What is read of a peer's answer to `message.recall`.
#[derive(Deserialize)]
struct PeerRecalled {
    errors: Option<Vec<RecallFailure>>,
}

type PeerRecallResult = Result<Vec<(String, Option<RecallRefusal>)>, Error>;

impl MessageService {
    pub(in super::super) async fn recall_at_peers(
        &self,
        caller: &Caller,
        message_ids: &[String],
    ) -> Result<RecalledAtPeers, Error> {
        let Ok(session) = caller.local_agent() else { return Ok(RecalledAtPeers::default()) };
        let keys: HashMap<MessageKey, &String> =
            message_ids.iter().map(|id| (MessageKey::new(&session.aid, id), id)).collect();
        let mut recalled = RecalledAtPeers::default();
        let RecallPlan { by_issuer, sure, waiting } = self.plan_recall(session, keys, &mut recalled).await?;

        let answers = by_issuer
            .iter()
            .map(|(issuer, ids)| self.recall_at_peer(PeerCall { caller, session, issuer }, ids));
        let answers = join_all(answers).await;

        recalled.settle(by_issuer.into_values().zip(answers), &sure);
        self.withdraw_tried(waiting, &mut recalled).await?;
        Ok(recalled)
    }

    /// What waits because its peer link broke, and did not arrive by that try: it is not sent again.
    async fn withdraw_tried(
        &self,
        waiting: HashMap<MessageKey, &String>,
        recalled: &mut RecalledAtPeers,
    ) -> Result<(), Error> {
        let not_arrived = |id: &&String| recalled.outcomes.get(*id) == Some(&Some(RecallRefusal::NotFound));
        let unsent: HashMap<MessageKey, &String> =
            waiting.into_iter().filter(|(_, id)| not_arrived(id)).collect();
        if unsent.is_empty() {
            return Ok(());
        }
        let withdrawn = self.outbox.withdraw(unsent.keys(), false).await?.withdrawn;
        for (key, id) in unsent {
            if withdrawn.contains(&key.text()) {
                recalled.outcomes.insert(id.clone(), None);
            } else {
                // It is being sent at this moment, or has just arrived: calling again completes it.
                recalled.outcomes.remove(id);
                recalled.open.insert(id.clone());
                recalled.failed = Some(being_sent(id).into());
            }
        }
        Ok(())
    }

    /// What still waits is withdrawn at once. A copy for the sender's own devices names the recipient, and so the domain;
    /// what is not found at all may be in any domain that the sender wrote to.
    async fn plan_recall<'a>(
        &self,
        session: &CallingAgent,
        keys: HashMap<MessageKey, &'a String>,
        recalled: &mut RecalledAtPeers,
    ) -> Result<RecallPlan<'a>, Error> {
        let wanted: Vec<MessageKey> = keys.keys().copied().collect();
        let OutboxWithdrawal { withdrawn, waiting } = self.outbox.withdraw(wanted.iter(), true).await?;
        let here = self.store.find_all(&wanted).await?;
        let now = self.clock.now_ms();
        let written_to = self.recent_peers.of(&session.aid, now).await?;

        let (mut plan, mut not_found) = (RecallPlan::default(), Vec::new());
        for (key, id) in keys {
            let name = key.text();
            if withdrawn.contains(&name) {
                recalled.outcomes.insert(id.clone(), None);
            } else if let Some(issuer) = waiting.get(&name) {
                plan.ask(issuer, id);
                plan.waiting.insert(key, id);
            } else if let Some(message) = here.get(&key) {
                let issuer = message.to.issuer();
                let lately =
                    self.recent_peers.remembers(message.at, now) || written_to.iter().any(|to| to == issuer);
                if !self.is_ours(&message.to) && lately {
                    plan.ask(issuer, id);
                }
            } else {
                not_found.push(id);
            }
        }
        for issuer in written_to.into_iter().filter(|_| !not_found.is_empty()) {
            plan.by_issuer.entry(issuer).or_default().extend(&not_found);
        }
        Ok(plan)
    }

    async fn recall_at_peer(&self, call: PeerCall<'_>, ids: &[&String]) -> PeerRecallResult {
        let message_ids = ids.iter().map(|id| (*id).clone()).collect();
        let request = Recall { message_ids, client_signature: None };
        let answer: PeerRecalled = self.ask_peer(&call, &request, None).await?;
        let refusal = |id: &str| {
            let refused = answer.errors.iter().flatten().find(|refused| refused.message_id == id);
            refused.map(|refused| refused.error)
        };
        Ok(ids.iter().map(|id| ((*id).clone(), refusal(id))).collect())
    }
}

impl<'a> RecallPlan<'a> {
    fn ask(&mut self, issuer: &str, id: &'a String) {
        self.by_issuer.entry(issuer.to_owned()).or_default().push(id);
        self.sure.insert(id);
    }
}

impl RecalledAtPeers {
    /// Combines what several domains answer about the same messages. One that none of them has may still be stored here,
    /// unless its domain is known.
    fn settle<'a>(
        &mut self,
        answers: impl Iterator<Item = (Vec<&'a String>, PeerRecallResult)>,
        sure: &HashSet<&'a String>,
    ) {
        for (ids, answer) in answers {
            match answer {
                Ok(outcomes) => outcomes.into_iter().for_each(|(id, outcome)| {
                    if outcome != Some(RecallRefusal::NotFound) || sure.contains(&id) {
                        let combined = self.outcomes.entry(id).or_insert(outcome);
                        *combined = combine(*combined, outcome);
                    }
                }),
                Err(error) => {
                    self.open.extend(ids.into_iter().cloned());
                    self.failed = Some(error);
                }
            }
        }
        // A domain that has the message has answered: what others would have answered makes no difference.
        self.open.retain(|id| !self.outcomes.contains_key(id));
        if self.open.is_empty() {
            self.failed = None;
        }
    }
}

/// A message that was sent to two domains is recalled when both recalled it. That one refuses counts for more than that
/// another recalled it.
fn combine(one: Option<RecallRefusal>, other: Option<RecallRefusal>) -> Option<RecallRefusal> {
    let rank = |outcome| match outcome {
        Some(RecallRefusal::NotFound) => 0,
        Some(RecallRefusal::NotSender) => 1,
        Some(RecallRefusal::AlreadyRecalled) => 2,
        None => 3,
        Some(RecallRefusal::Expired) => 4,
    };
    if rank(other) > rank(one) { other } else { one }
}

fn being_sent(message_id: &str) -> RpcError {
    let sentence =
        format!("message {message_id} is being sent to its domain right now; try again in a moment");
    RpcError::new(codes::UNAVAILABLE, sentence)
}
