//! One commit: which messages were sent before, which seqs come next, how far cursors move and what recalls come to.

use crate::store::Store;
use crate::store::bind::json;
use crate::store::ephemeral::queue_messages::QueueMessages;
use crate::store::stored_message::{InboxEntry, MessageKey, StoredMessage};
use crate::store::tool_calls::{self, ToolCallWindows};
use crate::store::write::{
    AckOutcome, CommittedMessage, CursorAdvance, NewMessage, Recall, RecallOutcome, RecallOutcomes,
    SendOutcome, Write, WriteOutcome,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The one task that writes.
pub(crate) struct SqliteWriter {
    pub store: Arc<Store>,
    pub queue_messages: Arc<QueueMessages<Arc<StoredMessage>>>,
    /// Whatever is durable goes here, to be published.
    pub committed: mpsc::Sender<Vec<CommittedMessage>>,
    /// The id of the last message of the log.
    pub last: i64,
    /// The last commit failed, and may have been written all the same.
    pub unsure: bool,
}

/// One commit as it is being made.
pub(crate) struct SqliteCommit {
    heads: HashMap<i64, i64>,
    pub messages: Vec<Arc<StoredMessage>>,
    committed: Vec<CommittedMessage>,
    /// Queue messages, each with its inbox.
    queued: Vec<(Arc<StoredMessage>, i64)>,
    pub changed: Vec<Arc<StoredMessage>>,
    pub cursors: BTreeMap<(i64, String, String), i64>,
    pub tool_calls: ToolCallWindows,
}

type StoredByKey = HashMap<MessageKey, Arc<StoredMessage>>;

/// The keys of the messages among these writes.
fn keys(writes: &[Write]) -> Vec<MessageKey> {
    let key = |write: &Write| match write {
        Write::Send(new, _) => Some(new.message.key),
        Write::Ack(_) | Write::Recall(_) | Write::Count(_) => None,
    };
    writes.iter().filter_map(key).collect()
}

impl SqliteWriter {
    pub async fn commit(&mut self, writes: Vec<Write>) -> sqlx::Result<Vec<WriteOutcome>> {
        self.read_what_was_written().await?;
        let written = self.try_commit(writes).await;
        self.unsure = written.is_err();
        written
    }

    /// A commit whose answer was an error may be durable all the same. Its ids and seqs would be given a second time, so the
    /// log is read before the next commit: what it has was written.
    async fn read_what_was_written(&mut self) -> sqlx::Result<()> {
        if self.unsure {
            loop {
                let messages = self.store.log_after(self.last, 1000).await?;
                let Some(message) = messages.last() else { break };
                self.last = message.id;
                self.store.add_committed(messages);
            }
        }
        self.unsure = false;
        Ok(())
    }

    async fn try_commit(&mut self, writes: Vec<Write>) -> sqlx::Result<Vec<WriteOutcome>> {
        let mut commit = SqliteCommit {
            heads: HashMap::new(),
            messages: Vec::new(),
            committed: Vec::new(),
            queued: Vec::new(),
            changed: Vec::new(),
            cursors: BTreeMap::new(),
            tool_calls: ToolCallWindows::read(self.store.db(), &tool_calls::senders(&writes)).await?,
        };
        let known = self.look_up(&mut commit, &writes).await?;
        let before = self.old_cursors(&writes).await?;
        let mut fresh: HashMap<MessageKey, Arc<StoredMessage>> = HashMap::new();
        let mut written = Vec::with_capacity(writes.len());
        for write in writes {
            written.push(match write {
                Write::Send(new, _) => {
                    let key = new.message.key;
                    WriteOutcome::Send(if let Some(first) = known.get(&key).or_else(|| fresh.get(&key)) {
                        SendOutcome::Duplicate(first.clone())
                    } else if let Some(retry_after_ms) = commit.tool_calls.refuses(&new) {
                        SendOutcome::TooManyToolCalls { retry_after_ms }
                    } else {
                        let message = self.give_seqs(&mut commit, *new);
                        fresh.insert(key, message.clone());
                        SendOutcome::Sent(message)
                    })
                }
                Write::Ack(advance) => WriteOutcome::Ack(self.advance(&mut commit, &before, advance).await?),
                Write::Recall(recall) => {
                    WriteOutcome::Recall(self.recall(&mut commit, &fresh, *recall).await?)
                }
                Write::Count(count) => WriteOutcome::Count(commit.tool_calls.change(&count)),
            });
        }
        self.write_log(&mut commit).await?;

        let SqliteCommit { messages, committed, queued, changed, .. } = commit;
        self.store.was_written();
        self.show(messages, committed, queued, changed).await;
        Ok(written)
    }

    /// Only what is durable is shown to anyone. Readable before it is published: who is notified pulls at once.
    async fn show(
        &mut self,
        messages: Vec<Arc<StoredMessage>>,
        committed: Vec<CommittedMessage>,
        queued: Vec<(Arc<StoredMessage>, i64)>,
        changed: Vec<Arc<StoredMessage>>,
    ) {
        if let Some(last) = messages.last() {
            self.last = last.id;
        }
        for (message, inbox) in queued {
            self.queue_messages.put(message, inbox);
        }
        self.store.add_committed(messages);
        self.store.replace(&changed);
        if !committed.is_empty() {
            // Only fails when the server is stopping and nobody receives.
            let _ = self.committed.send(committed).await;
        }
    }

    /// What was sent before, and the last seqs. No other task writes, so both stay true until the commit.
    async fn look_up(&self, commit: &mut SqliteCommit, writes: &[Write]) -> sqlx::Result<StoredByKey> {
        let keys = keys(writes);
        let known = if keys.is_empty() { StoredByKey::new() } else { self.store.find_all(&keys).await? };
        let inboxes = self.inboxes(writes, &known).await?;
        commit.heads = inboxes.into_iter().map(|inbox| (inbox, self.store.head(inbox))).collect();
        Ok(known)
    }

    /// The inboxes that may get a message.
    async fn inboxes(&self, writes: &[Write], known: &StoredByKey) -> sqlx::Result<BTreeSet<i64>> {
        let mut inboxes = BTreeSet::new();
        for write in writes {
            match write {
                Write::Send(new, _) if !known.contains_key(&new.message.key) => {
                    inboxes.extend(new.message.entries.iter().map(|entry| entry.inbox));
                }
                Write::Recall(recall) => {
                    let keys: Vec<MessageKey> =
                        recall.message_ids.iter().map(|id| MessageKey::new(&recall.from, id)).collect();
                    let found = self.store.find_all(&keys).await?;
                    let entries = found.values().flat_map(|message| &message.entries);
                    inboxes.extend(entries.map(|entry| entry.inbox));
                }
                Write::Send(..) | Write::Ack(_) | Write::Count(_) => {}
            }
        }
        Ok(inboxes)
    }

    /// Gives a message its seqs and its id.
    fn give_seqs(&self, commit: &mut SqliteCommit, new: NewMessage) -> Arc<StoredMessage> {
        let NewMessage { mut message, devices, queue, trace, .. } = new;
        for InboxEntry { inbox, seq, .. } in &mut message.entries {
            let head = commit.heads.entry(*inbox).or_default();
            *head += 1;
            *seq = *head;
        }
        message.id = self.last + 1 + commit.messages.len() as i64;
        let message = Arc::new(message);
        let mut published = message.clone();
        let mut session = None;
        if let Some(queue) = queue {
            published = Arc::new(StoredMessage { body: queue.payload, ..StoredMessage::clone(&message) });
            session = queue.session;
            if let Some(entry) = message.entries.first() {
                commit.queued.push((published.clone(), entry.inbox));
            }
        }
        commit.committed.push(CommittedMessage { message: published, devices, session, trace });
        commit.messages.push(message.clone());
        message
    }

    async fn old_cursors(&self, writes: &[Write]) -> sqlx::Result<HashMap<(i64, String, String), i64>> {
        let wanted: Vec<(i64, &str, &str)> = writes
            .iter()
            .filter_map(|write| match write {
                Write::Ack(ack) => Some((ack.inbox, ack.slot.as_str(), ack.sender.as_str())),
                Write::Send(..) | Write::Recall(_) | Write::Count(_) => None,
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

    /// "ack_seq only grows" (message.ack), and never beyond the last seq.
    async fn advance(
        &self,
        commit: &mut SqliteCommit,
        before: &HashMap<(i64, String, String), i64>,
        advance: CursorAdvance,
    ) -> sqlx::Result<AckOutcome> {
        let CursorAdvance { inbox, slot, sender, seq } = advance;
        let head = match commit.heads.get(&inbox) {
            Some(head) => *head,
            None => self.store.inbox_state(inbox).await?.head,
        };
        let cursor = (inbox, slot, sender);
        let old = commit.cursors.get(&cursor).or_else(|| before.get(&cursor)).copied().unwrap_or(0);
        let now = old.max(seq.min(head));
        if now > old {
            commit.cursors.insert(cursor, now);
        }
        Ok(AckOutcome { before: old, now })
    }

    async fn recall(
        &self,
        commit: &mut SqliteCommit,
        fresh: &HashMap<MessageKey, Arc<StoredMessage>>,
        recall: Recall,
    ) -> sqlx::Result<RecallOutcomes> {
        let mut outcomes = Vec::with_capacity(recall.message_ids.len());
        let mut recalled: Vec<Arc<StoredMessage>> = Vec::new();
        for message_id in &recall.message_ids {
            let key = MessageKey::new(&recall.from, message_id);
            // One that was sent in this very commit is not in the store yet; its sender was not answered either.
            let message = match fresh.contains_key(&key) {
                true => None,
                false => self.current(commit, &key).await?,
            };
            let outcome = recall.decide(message.as_deref());
            if let (RecallOutcome::Recalled, Some(message)) = (outcome, message) {
                let changed = Arc::new(message.recalled(recall.now));
                commit.changed.retain(|other| other.id != changed.id);
                commit.changed.push(changed.clone());
                recalled.push(changed);
            }
            outcomes.push((message_id.clone(), outcome));
        }
        for notice in recall.notices(&recalled) {
            self.give_seqs(commit, notice);
        }
        Ok(outcomes)
    }

    /// The message with what this commit does to it.
    async fn current(
        &self,
        commit: &SqliteCommit,
        key: &MessageKey,
    ) -> sqlx::Result<Option<Arc<StoredMessage>>> {
        match commit.changed.iter().find(|message| message.key == *key) {
            Some(changed) => Ok(Some(changed.clone())),
            None => self.store.find(key).await,
        }
    }
}
