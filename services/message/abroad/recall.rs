//! Letters that went to other domains are taken back over there.

use super::super::letter::Key;
use super::super::recall::{Recalled, Refusal};
use super::super::{Error, Message};
use super::Crossing;
use crate::kernel::{Caller, Session};
use futures_util::future::join_all;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};

/// What became of the letters that are not of this domain.
#[derive(Default)]
pub(in super::super) struct RecalledAbroad {
    /// The reason why not, where there is one.
    pub outcomes: HashMap<String, Option<Refusal>>,
    /// "A call spanning several domains … reports an error if any domain fails" (§7). Asking again brings them together.
    pub failed: Option<Error>,
}

impl Message {
    pub(in super::super) async fn recall_abroad(
        &self,
        caller: &Caller,
        message_ids: &[String],
    ) -> Result<RecalledAbroad, Error> {
        let Caller::Agent(session) = caller else { return Ok(RecalledAbroad::default()) };
        let keys: HashMap<Key, &String> =
            message_ids.iter().map(|id| (Key::new(&session.aid, id), id)).collect();
        let wanted: Vec<Key> = keys.keys().copied().collect();
        let (withdrawn, on_their_way) = self.outbox.withdraw(&wanted).await?;
        let went = self.targets.find(&wanted, self.clock.now_ms()).await?;

        let mut recalled = RecalledAbroad::default();
        let mut asked: BTreeMap<String, Vec<&String>> = BTreeMap::new();
        for (key, id) in keys {
            let name = key.text();
            if withdrawn.contains(&name) {
                recalled.outcomes.insert(id.clone(), None);
            } else if let Some(issuer) = went.get(&key).or_else(|| on_their_way.get(&name)) {
                asked.entry(issuer.clone()).or_default().push(id);
            }
        }
        let answers = asked.iter().map(|(issuer, ids)| self.recall_there(session, issuer, ids));
        for answer in join_all(answers).await {
            match answer {
                Ok(outcomes) => recalled.outcomes.extend(outcomes),
                Err(error) => recalled.failed = Some(error),
            }
        }
        Ok(recalled)
    }

    async fn recall_there(
        &self,
        session: &Session,
        issuer: &str,
        ids: &[&String],
    ) -> Result<Vec<(String, Option<Refusal>)>, Error> {
        let params = json!({ "message_ids": ids });
        let answer: Recalled =
            self.ask_abroad(&Crossing { session, issuer }, "message.recall", &params, None).await?;
        let refusal = |id: &str| answer.refusal(id);
        Ok(ids.iter().map(|id| ((*id).clone(), refusal(id))).collect())
    }
}
