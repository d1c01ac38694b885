//! The end of the log that is not indexed yet, in memory.

use crate::store::lookup::{InboxMessage, SeqRange};
use crate::store::stored_message::{MessageKey, StoredMessage};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Unindexed {
    messages: VecDeque<Arc<StoredMessage>>,
    inboxes: HashMap<i64, VecDeque<InboxMessage>>,
    keys: HashMap<MessageKey, Arc<StoredMessage>>,
    bytes: usize,
}

impl Unindexed {
    pub fn push(&mut self, message: Arc<StoredMessage>) {
        self.bytes += message.bytes();
        for entry in &message.entries {
            let received = InboxMessage { seq: entry.seq, message: message.clone() };
            self.inboxes.entry(entry.inbox).or_default().push_back(received);
        }
        self.keys.insert(message.key, message.clone());
        self.messages.push_back(message);
    }

    /// The oldest ones, to be indexed.
    pub fn oldest(&self, most: usize) -> Vec<Arc<StoredMessage>> {
        self.messages.iter().take(most).cloned().collect()
    }

    /// The id of the newest one.
    pub fn newest(&self) -> Option<i64> {
        self.messages.back().map(|message| message.id)
    }

    /// Removes some of the messages up to this one, since they are indexed; says whether there are more.
    pub fn remove_indexed(&mut self, through: i64, most: usize) -> bool {
        for _ in 0..most {
            let Some(message) = self.messages.pop_front_if(|message| message.id <= through) else {
                return false;
            };
            self.bytes -= message.bytes();
            self.keys.remove(&message.key);
            for entry in &message.entries {
                let Some(received) = self.inboxes.get_mut(&entry.inbox) else { continue };
                while received.pop_front_if(|first| first.message.id <= through).is_some() {}
                if received.is_empty() {
                    self.inboxes.remove(&entry.inbox);
                }
            }
        }
        true
    }

    /// Puts a changed message where the one with its id was.
    pub fn replace(&mut self, changed: &Arc<StoredMessage>) {
        let position = self.messages.iter().rposition(|message| message.id == changed.id);
        let Some(position) = position else { return };
        self.bytes = self.bytes + changed.bytes() - self.messages[position].bytes();
        self.messages[position] = changed.clone();
        self.keys.insert(changed.key, changed.clone());
        for entry in &changed.entries {
            for received in self.inboxes.get_mut(&entry.inbox).into_iter().flatten() {
                if received.message.id == changed.id {
                    received.message = changed.clone();
                }
            }
        }
    }

    pub fn find(&self, key: &MessageKey) -> Option<Arc<StoredMessage>> {
        self.keys.get(key).cloned()
    }

    /// Ascending.
    pub fn messages_in(&self, range: SeqRange<'_>) -> Vec<InboxMessage> {
        let Some(received) = self.inboxes.get(&range.inbox) else { return Vec::new() };
        received.iter().filter(|one| range.contains(one.seq, &one.message)).cloned().collect()
    }

    /// The first seq of an inbox that is only here.
    pub fn first(&self, inbox: i64) -> Option<i64> {
        self.inboxes.get(&inbox)?.front().map(|first| first.seq)
    }

    /// The last seq of each sender in an inbox.
    pub fn senders(&self, inbox: i64) -> HashMap<String, i64> {
        let received = self.inboxes.get(&inbox).into_iter().flatten();
        received.map(|one| (one.message.from.to_string(), one.seq)).collect()
    }

    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
