//! The end of the log that is not filed yet, in memory. On PostgreSQL everything is filed at once and it stays empty.

use super::stored_message::{Key, StoredMessage};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A message's number in an inbox, and the message.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub seq: i64,
    pub message: Arc<StoredMessage>,
}

/// Which numbers of an inbox are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a> {
    pub inbox: i64,
    /// Greater than this…
    pub after: i64,
    /// … and less than this.
    pub before: i64,
    /// Only those of this sender.
    pub sender: Option<&'a str>,
}

impl Span<'_> {
    fn holds(&self, seq: i64, message: &StoredMessage) -> bool {
        self.after < seq
            && seq < self.before
            && self.sender.is_none_or(|sender| message.from.as_str() == sender)
    }
}

#[derive(Default)]
pub(super) struct Tail {
    messages: VecDeque<Arc<StoredMessage>>,
    inboxes: HashMap<i64, VecDeque<Entry>>,
    keys: HashMap<Key, Arc<StoredMessage>>,
    bytes: usize,
}

impl Tail {
    pub fn push(&mut self, message: Arc<StoredMessage>) {
        self.bytes += message.weight();
        for place in &message.places {
            let entry = Entry { seq: place.seq, message: message.clone() };
            self.inboxes.entry(place.inbox).or_default().push_back(entry);
        }
        self.keys.insert(message.key, message.clone());
        self.messages.push_back(message);
    }

    /// The oldest ones, to be filed.
    pub fn oldest(&self, most: usize) -> Vec<Arc<StoredMessage>> {
        self.messages.iter().take(most).cloned().collect()
    }

    /// Forgets some of the messages up to this one, since they are filed; says whether there are more.
    pub fn filed(&mut self, through: i64, most: usize) -> bool {
        for _ in 0..most {
            let Some(message) = self.messages.pop_front_if(|message| message.id <= through) else {
                return false;
            };
            self.bytes -= message.weight();
            self.keys.remove(&message.key);
            for place in &message.places {
                let Some(entries) = self.inboxes.get_mut(&place.inbox) else { continue };
                while entries.pop_front_if(|entry| entry.message.id <= through).is_some() {}
                if entries.is_empty() {
                    self.inboxes.remove(&place.inbox);
                }
            }
        }
        true
    }

    /// Puts a changed message in the place of the one it was.
    pub fn replace(&mut self, changed: &Arc<StoredMessage>) {
        let Some(at) = self.messages.iter().rposition(|message| message.id == changed.id) else { return };
        self.bytes = self.bytes + changed.weight() - self.messages[at].weight();
        self.messages[at] = changed.clone();
        self.keys.insert(changed.key, changed.clone());
        for place in &changed.places {
            for entry in self.inboxes.get_mut(&place.inbox).into_iter().flatten() {
                if entry.message.id == changed.id {
                    entry.message = changed.clone();
                }
            }
        }
    }

    pub fn find(&self, key: &Key) -> Option<Arc<StoredMessage>> {
        self.keys.get(key).cloned()
    }

    /// The entries of a span, ascending.
    pub fn entries(&self, span: Span<'_>) -> Vec<Entry> {
        let Some(entries) = self.inboxes.get(&span.inbox) else { return Vec::new() };
        entries.iter().filter(|entry| span.holds(entry.seq, &entry.message)).cloned().collect()
    }

    /// The first number of an inbox that is only here.
    pub fn first(&self, inbox: i64) -> Option<i64> {
        self.inboxes.get(&inbox)?.front().map(|entry| entry.seq)
    }

    /// The last number of each sender in an inbox.
    pub fn senders(&self, inbox: i64) -> HashMap<String, i64> {
        let entries = self.inboxes.get(&inbox).into_iter().flatten();
        entries.map(|entry| (entry.message.from.to_string(), entry.seq)).collect()
    }

    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
