//! Messages that went to other domains are taken back over there.

use super::Crossing;
use crate::kernel::{Caller, RpcError, Session, codes};
use crate::message::recall::{RecallRefusal, Recalled, RecalledAbroad};
use crate::message::store::stored_message::MessageKey;
use crate::message::{Error, Message};
use futures_util::future::join_all;
use serde_json::json;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Which domains are asked for which messages.
#[derive(Default)]
struct Asked<'a> {
    by_issuer: BTreeMap<String, Vec<&'a String>>,
    /// Those of which it is known where they went.
    sure: HashSet<&'a String>,
    /// Those that are on their way, or may have got there before and wait to go again.
    waiting: HashMap<MessageKey, &'a String>,
}

type Answer = Result<Vec<(String, Option<RecallRefusal>)>, Error>;

impl Message {
    pub(in super::super) async fn recall_abroad(
        &self,
        caller: &Caller,
        message_ids: &[String],
    ) -> Result<RecalledAbroad, Error> {
        let Caller::Agent(session) = caller else { return Ok(RecalledAbroad::default()) };
        let keys: HashMap<MessageKey, &String> =
            message_ids.iter().map(|id| (MessageKey::new(&session.aid, id), id)).collect();
        let mut recalled = RecalledAbroad::default();
        let Asked { by_issuer, sure, waiting } = self.whom_to_ask(session, keys, &mut recalled).await?;

        let answers = by_issuer.iter().map(|(issuer, ids)| self.recall_there(session, issuer, ids));
        let answers = join_all(answers).await;

        recalled.settle(by_issuer.into_values().zip(answers), &sure);
        self.withdraw_tried(waiting, &mut recalled).await?;
        Ok(recalled)
    }

    /// What waits because its link broke, and did not get there: it will not go again.
    async fn withdraw_tried(
        &self,
        waiting: HashMap<MessageKey, &String>,
        recalled: &mut RecalledAbroad,
    ) -> Result<(), Error> {
        let is_lost = |id: &&String| recalled.outcomes.get(*id) == Some(&Some(RecallRefusal::NotFound));
        let lost: HashMap<MessageKey, &String> = waiting.into_iter().filter(|(_, id)| is_lost(id)).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let keys: Vec<MessageKey> = lost.keys().copied().collect();
        let (withdrawn, _) = self.outbox.withdraw(&keys, false).await?;
        for (key, id) in lost {
            if withdrawn.contains(&key.text()) {
                recalled.outcomes.insert(id.clone(), None);
            } else {
                // It goes there at this very moment, or has just got there: asking again settles it.
                recalled.outcomes.remove(id);
                recalled.open.insert(id.clone());
                recalled.failed = Some(RpcError::plain(codes::UNAVAILABLE).into());
            }
        }
        Ok(())
    }

    /// What still waits is taken back at once. A copy on the sender's own devices says where the message went; what is not
    /// found at all may be in any domain that the sender wrote to.
    async fn whom_to_ask<'a>(
        &self,
        session: &Session,
        keys: HashMap<MessageKey, &'a String>,
        recalled: &mut RecalledAbroad,
    ) -> Result<Asked<'a>, Error> {
        let wanted: Vec<MessageKey> = keys.keys().copied().collect();
        let (withdrawn, on_their_way) = self.outbox.withdraw(&wanted, true).await?;
        let here = self.store.find_all(&wanted).await?;
        let now = self.clock.now_ms();
        let written_to = self.targets.of(&session.aid, now).await?;

        let (mut asked, mut lost) = (Asked::default(), Vec::new());
        for (key, id) in keys {
            let name = key.text();
            if withdrawn.contains(&name) {
                recalled.outcomes.insert(id.clone(), None);
            } else if let Some(issuer) = on_their_way.get(&name) {
                asked.ask(issuer, id);
                asked.waiting.insert(key, id);
            } else if let Some(message) = here.get(&key) {
                let issuer = message.to.issuer();
                let lately =
                    self.targets.remembers(message.at, now) || written_to.iter().any(|to| to == issuer);
                if !self.is_ours(&message.to) && lately {
                    asked.ask(issuer, id);
                }
            } else {
                lost.push(id);
            }
        }
        for issuer in written_to.into_iter().filter(|_| !lost.is_empty()) {
            asked.by_issuer.entry(issuer).or_default().extend(&lost);
        }
        Ok(asked)
    }

    async fn recall_there(&self, session: &Session, issuer: &str, ids: &[&String]) -> Answer {
        let params = json!({ "message_ids": ids });
        let answer: Recalled =
            self.ask_abroad(&Crossing { session, issuer }, "message.recall", &params, None).await?;
        let refusal = |id: &str| answer.refusal(id);
        Ok(ids.iter().map(|id| ((*id).clone(), refusal(id))).collect())
    }
}

impl<'a> Asked<'a> {
    fn ask(&mut self, issuer: &str, id: &'a String) {
        self.by_issuer.entry(issuer.to_owned()).or_default().push(id);
        self.sure.insert(id);
    }
}

impl RecalledAbroad {
    /// Brings together what several domains say of the same messages. One that none of them has may still be here, unless
    /// it is known where it went.
    fn settle<'a>(
        &mut self,
        answers: impl Iterator<Item = (Vec<&'a String>, Answer)>,
        sure: &HashSet<&'a String>,
    ) {
        for (ids, answer) in answers {
            match answer {
                Ok(outcomes) => outcomes.into_iter().for_each(|(id, outcome)| {
                    if outcome != Some(RecallRefusal::NotFound) || sure.contains(&id) {
                        let said = self.outcomes.entry(id).or_insert(outcome);
                        *said = more_telling(*said, outcome);
                    }
                }),
                Err(error) => {
                    self.open.extend(ids.into_iter().cloned());
                    self.failed = Some(error);
                }
            }
        }
        // Who has a message has said so: what others would have said makes no difference.
        self.open.retain(|id| !self.outcomes.contains_key(id));
        if self.open.is_empty() {
            self.failed = None;
        }
    }
}

/// A message that went to two domains is taken back when both say so. One that has it and keeps it counts for more than
/// another that says otherwise.
fn more_telling(one: Option<RecallRefusal>, other: Option<RecallRefusal>) -> Option<RecallRefusal> {
    let rank = |outcome| match outcome {
        Some(RecallRefusal::NotFound) => 0,
        Some(RecallRefusal::NotSender) => 1,
        Some(RecallRefusal::AlreadyRecalled) => 2,
        None => 3,
        Some(RecallRefusal::Expired) => 4,
    };
    if rank(other) > rank(one) { other } else { one }
}
