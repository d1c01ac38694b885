//! One commit on SQLite: who sent this before, which numbers come next, how far cursors and recalls go.

use super::ledger::{Advance, Bell, Done, Draft, Outcome, Recall, Write};
use super::ring::Rings;
use super::store::{Store, json};
use super::stored_message::{Key, Place, StoredMessage};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The one task that writes.
pub(super) struct Writer {
    pub store: Arc<Store>,
    pub rings: Arc<Rings<Arc<StoredMessage>>>,
    pub ring: mpsc::Sender<Vec<Bell>>,
    /// The last message of the log.
    pub last: i64,
    /// A commit failed: the log is asked what it really holds.
    pub unsure: bool,
}

/// One commit as it is being made.
pub(super) struct Commit {
    heads: HashMap<i64, i64>,
    pub messages: Vec<Arc<StoredMessage>>,
    bells: Vec<Bell>,
    queued: Vec<(Arc<StoredMessage>, i64)>,
    pub changed: Vec<Arc<StoredMessage>>,
    pub cursors: BTreeMap<(i64, String, String), i64>,
}

type Known = HashMap<Key, Arc<StoredMessage>>;

/// What these writes want to send.
fn keys(writes: &[Write]) -> Vec<Key> {
    let key = |write: &Write| match write {
        Write::Send(draft, _) => Some(draft.message.key),
        Write::Ack(_) | Write::Recall(_) => None,
    };
    writes.iter().filter_map(key).collect()
}

impl Writer {
    pub async fn commit(&mut self, writes: Vec<Write>) -> sqlx::Result<Vec<Done>> {
        self.make_sure().await?;
        let outcome = self.try_commit(writes).await;
        self.unsure = outcome.is_err();
        outcome
    }

    /// After a failed commit the log decides what happened.
    async fn make_sure(&mut self) -> sqlx::Result<()> {
        if self.unsure {
            loop {
                let messages = self.store.log_after(self.last, 1000).await?;
                let Some(message) = messages.last() else { break };
                self.last = message.id;
                self.store.take_in(messages);
            }
        }
        self.unsure = false;
        Ok(())
    }

    async fn try_commit(&mut self, writes: Vec<Write>) -> sqlx::Result<Vec<Done>> {
        let mut commit = Commit {
            heads: HashMap::new(),
            messages: Vec::new(),
            bells: Vec::new(),
            queued: Vec::new(),
            changed: Vec::new(),
            cursors: BTreeMap::new(),
        };
        let known = self.look_up(&mut commit, &writes).await?;
        let before = self.old_cursors(&writes).await?;
        let mut fresh: HashMap<Key, Arc<StoredMessage>> = HashMap::new();
        let mut done = Vec::with_capacity(writes.len());
        for write in writes {
            done.push(match write {
                Write::Send(draft, _) => {
                    let key = draft.message.key;
                    match known.get(&key).or_else(|| fresh.get(&key)) {
                        Some(first) => Done::Again(first.clone()),
                        None => {
                            let message = self.number(&mut commit, *draft);
                            fresh.insert(key, message.clone());
                            Done::Sent(message)
                        }
                    }
                }
                Write::Ack(advance) => self.advance(&mut commit, &before, advance).await?,
                Write::Recall(recall) => self.recall(&mut commit, &fresh, *recall).await?,
            });
        }
        self.write_log(&mut commit).await?;

        let Commit { messages, bells, queued, changed, .. } = commit;
        self.store.was_written();
        self.after(messages, bells, queued, changed).await;
        Ok(done)
    }

    /// Only what is durable is shown to anyone.
    async fn after(
        &mut self,
        messages: Vec<Arc<StoredMessage>>,
        bells: Vec<Bell>,
        queued: Vec<(Arc<StoredMessage>, i64)>,
        changed: Vec<Arc<StoredMessage>>,
    ) {
        if let Some(last) = messages.last() {
            self.last = last.id;
        }
        for (message, inbox) in queued {
            if let Some(place) = message.place(inbox) {
                let (to, seq) = (message.to.clone(), place.seq);
                self.rings.put(&to, inbox, seq, message.at, message.weight(), message);
            }
        }
        self.store.take_in(messages);
        self.store.replace(&changed);
        if !bells.is_empty() {
            // Only fails when the server is stopping and nobody listens.
            let _ = self.ring.send(bells).await;
        }
    }

    /// Nobody else writes: what was sent before, and the last numbers, as they are.
    async fn look_up(&self, commit: &mut Commit, writes: &[Write]) -> sqlx::Result<Known> {
        let keys = keys(writes);
        let known = if keys.is_empty() { Known::new() } else { self.store.find_all(&keys).await? };
        let inboxes = self.inboxes(writes, &known).await?;
        commit.heads = inboxes.into_iter().map(|inbox| (inbox, self.store.head(inbox))).collect();
        Ok(known)
    }

    /// The inboxes that may get a number.
    async fn inboxes(&self, writes: &[Write], known: &Known) -> sqlx::Result<BTreeSet<i64>> {
        let mut inboxes = BTreeSet::new();
        for write in writes {
            match write {
                Write::Send(draft, _) if !known.contains_key(&draft.message.key) => {
                    inboxes.extend(draft.message.places.iter().map(|place| place.inbox));
                }
                Write::Recall(recall) => {
                    let keys: Vec<Key> =
                        recall.message_ids.iter().map(|id| Key::new(&recall.from, id)).collect();
                    let found = self.store.find_all(&keys).await?;
                    inboxes.extend(found.values().flat_map(|message| message.places.iter().map(|p| p.inbox)));
                }
                Write::Send(..) | Write::Ack(_) => {}
            }
        }
        Ok(inboxes)
    }

    /// Gives a message its numbers.
    fn number(&self, commit: &mut Commit, draft: Draft) -> Arc<StoredMessage> {
        let Draft { mut message, devices, queue, trace } = draft;
        for Place { inbox, seq, .. } in &mut message.places {
            let head = commit.heads.entry(*inbox).or_default();
            *head += 1;
            *seq = *head;
        }
        message.id = self.last + 1 + commit.messages.len() as i64;
        let message = Arc::new(message);
        let mut told = message.clone();
        let mut seat = None;
        if let Some(queued) = queue {
            told = Arc::new(StoredMessage { body: queued.payload, ..StoredMessage::clone(&message) });
            seat = queued.seat;
            if let Some(place) = message.places.first() {
                commit.queued.push((told.clone(), place.inbox));
            }
        }
        commit.bells.push(Bell { message: told, devices, seat, trace });
        commit.messages.push(message.clone());
        message
    }

    async fn old_cursors(&self, writes: &[Write]) -> sqlx::Result<HashMap<(i64, String, String), i64>> {
        let wanted: Vec<(i64, &str, &str)> = writes
            .iter()
            .filter_map(|write| match write {
                Write::Ack(ack) => Some((ack.inbox, ack.slot.as_str(), ack.sender.as_str())),
                Write::Send(..) | Write::Recall(_) => None,
            })
            .collect();
        if wanted.is_empty() {
            return Ok(HashMap::new());
        }
        let rows: Vec<(i64, String, String, i64)> = sqlx::query_as(
            "SELECT c.inbox, c.slot, c.sender, c.seq FROM json_each($1) AS w
             JOIN cursor AS c ON c.inbox = w.value ->> 0 AND c.slot = w.value ->> 1 AND c.sender = w.value ->> 2",
        )
        .bind(json(&wanted))
        .fetch_all(self.store.db().read())
        .await?;
        Ok(rows.into_iter().map(|(inbox, slot, sender, seq)| ((inbox, slot, sender), seq)).collect())
    }

    /// "ack_seq only grows" (message.ack), and never beyond what was sent.
    async fn advance(
        &self,
        commit: &mut Commit,
        before: &HashMap<(i64, String, String), i64>,
        advance: Advance,
    ) -> sqlx::Result<Done> {
        let Advance { inbox, slot, sender, seq } = advance;
        let head = match commit.heads.get(&inbox) {
            Some(head) => *head,
            None => self.store.standing(inbox).await?.head,
        };
        let place = (inbox, slot, sender);
        let old = commit.cursors.get(&place).or_else(|| before.get(&place)).copied().unwrap_or(0);
        let now = old.max(seq.min(head));
        if now > old {
            commit.cursors.insert(place, now);
        }
        Ok(Done::Acked { before: old, now })
    }

    async fn recall(
        &self,
        commit: &mut Commit,
        fresh: &HashMap<Key, Arc<StoredMessage>>,
        recall: Recall,
    ) -> sqlx::Result<Done> {
        let mut outcomes = Vec::with_capacity(recall.message_ids.len());
        let mut taken: Vec<Arc<StoredMessage>> = Vec::new();
        for message_id in &recall.message_ids {
            let key = Key::new(&recall.from, message_id);
            // One that was sent in this very commit is not in the store yet; its sender was not answered either.
            let message = match fresh.contains_key(&key) {
                true => None,
                false => self.current(commit, &key).await?,
            };
            let outcome = recall.judge(message.as_deref());
            if let (Outcome::Recalled, Some(message)) = (outcome, message) {
                let changed = Arc::new(message.recalled(recall.now));
                commit.changed.retain(|other| other.id != changed.id);
                commit.changed.push(changed.clone());
                taken.push(changed);
            }
            outcomes.push((message_id.clone(), outcome));
        }
        for notice in recall.notices(&taken) {
            self.number(commit, notice);
        }
        Ok(Done::Recalled(outcomes))
    }

    /// The message as it is now, with what this commit did to it.
    async fn current(&self, commit: &Commit, key: &Key) -> sqlx::Result<Option<Arc<StoredMessage>>> {
        match commit.changed.iter().find(|message| message.key == *key) {
            Some(changed) => Ok(Some(changed.clone())),
            None => self.store.find(key).await,
        }
    }
}
