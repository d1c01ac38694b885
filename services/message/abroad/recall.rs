//! Messages that went to other domains are taken back over there.

use super::super::recall::{Recalled, Refusal};
use super::super::stored_message::Key;
use super::super::{Error, Message};
use super::Crossing;
use crate::kernel::{Caller, RpcError, Session, codes};
use futures_util::future::join_all;
use serde_json::json;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What became of the messages that are not of this domain.
#[derive(Default)]
pub(in super::super) struct RecalledAbroad {
    /// The reason why not, where there is one.
    pub outcomes: HashMap<String, Option<Refusal>>,
    /// Those that a domain may have which could not be asked.
    pub open: HashSet<String>,
    /// "A call spanning several domains … reports an error if any domain fails" (§7). Asking again brings them together.
    pub failed: Option<Error>,
}

/// Which domains are asked for which messages.
#[derive(Default)]
struct Asked<'a> {
    by_issuer: BTreeMap<String, Vec<&'a String>>,
    /// Those of which it is known where they went.
    sure: HashSet<&'a String>,
    /// Those that are on their way, or may have got there before and wait to go again.
    waiting: HashMap<Key, &'a String>,
}

type Answer = Result<Vec<(String, Option<Refusal>)>, Error>;

impl Message {
    pub(in super::super) async fn recall_abroad(
        &self,
        caller: &Caller,
        message_ids: &[String],
    ) -> Result<RecalledAbroad, Error> {
        let Caller::Agent(session) = caller else { return Ok(RecalledAbroad::default()) };
        let keys: HashMap<Key, &String> =
            message_ids.iter().map(|id| (Key::new(&session.aid, id), id)).collect();
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
        waiting: HashMap<Key, &String>,
        recalled: &mut RecalledAbroad,
    ) -> Result<(), Error> {
        let is_lost = |id: &&String| recalled.outcomes.get(*id) == Some(&Some(Refusal::NotFound));
        let lost: HashMap<Key, &String> = waiting.into_iter().filter(|(_, id)| is_lost(id)).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let keys: Vec<Key> = lost.keys().copied().collect();
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
        keys: HashMap<Key, &'a String>,
        recalled: &mut RecalledAbroad,
    ) -> Result<Asked<'a>, Error> {
        let wanted: Vec<Key> = keys.keys().copied().collect();
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
                    if outcome != Some(Refusal::NotFound) || sure.contains(&id) {
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
fn more_telling(one: Option<Refusal>, other: Option<Refusal>) -> Option<Refusal> {
    let rank = |outcome| match outcome {
        Some(Refusal::NotFound) => 0,
        Some(Refusal::NotSender) => 1,
        Some(Refusal::AlreadyRecalled) => 2,
        None => 3,
        Some(Refusal::Expired) => 4,
    };
    if rank(other) > rank(one) { other } else { one }
}
