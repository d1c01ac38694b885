//! The messages of one commit, until each is stored or answered otherwise.

use super::last_seqs::LastSeqs;
use super::with_seqs::BatchWithSeqs;
use super::without_seqs::BatchWithoutSeqs;
use crate::store::stored_message::{InboxEntry, MessageKey, StoredMessage};
use crate::store::write::{CommittedMessage, DeviceChanges, NewMessage, SendOutcome};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(super) struct MessageBatch {
    pub messages: Vec<(NewMessage, DeviceChanges)>,
    /// What became of each, if it was not stored by this commit.
    pub written: Vec<Option<SendOutcome>>,
    /// Which of them are stored and have their seqs.
    stored: Vec<bool>,
    /// A connection broke in the middle of a commit, so some may have been stored without our knowing.
    pub answer_lost: bool,
}

impl MessageBatch {
    pub fn new(messages: Vec<(NewMessage, DeviceChanges)>) -> MessageBatch {
        let written = messages.iter().map(|_| None).collect();
        MessageBatch { stored: vec![false; messages.len()], written, messages, answer_lost: false }
    }

    /// The positions of what is still to be stored: one of each key.
    pub fn open(&self) -> Vec<usize> {
        let mut keys = HashSet::new();
        let key = |position: usize| self.messages[position].0.message.key;
        let sent = |position: &usize| {
            self.stored[*position] || matches!(self.written[*position], Some(SendOutcome::Sent(_)))
        };
        keys.extend((0..self.written.len()).filter(sent).map(key));
        let open = |position: &usize| {
            !self.stored[*position] && self.written[*position].is_none() && keys.insert(key(*position))
        };
        (0..self.written.len()).filter(open).collect()
    }

    pub fn without_seqs(&mut self, open: &[usize]) -> BatchWithoutSeqs {
        BatchWithoutSeqs::new(&mut self.at(open))
    }

    /// The same with the seqs that follow the last ones, if those are known in this process.
    pub fn with_seqs(&mut self, open: &[usize], last_seqs: &LastSeqs) -> Option<BatchWithSeqs> {
        BatchWithSeqs::new(&mut self.at(open), last_seqs)
    }

    fn at(&mut self, positions: &[usize]) -> Vec<(&mut NewMessage, &DeviceChanges)> {
        let mut wanted = positions.iter().peekable();
        let mut messages = Vec::with_capacity(positions.len());
        for (position, (new, changes)) in self.messages.iter_mut().enumerate() {
            if wanted.next_if_eq(&&position).is_some() {
                messages.push((new, &*changes));
            }
        }
        messages
    }

    /// These were stored before.
    pub fn answer_duplicates(&mut self, messages: Vec<Arc<StoredMessage>>) {
        let messages: HashMap<MessageKey, Arc<StoredMessage>> =
            messages.into_iter().map(|message| (message.key, message)).collect();
        for ((new, _), written) in self.messages.iter().zip(&mut self.written) {
            let Some(message) = messages.get(&new.message.key).filter(|_| written.is_none()) else {
                continue;
            };
            // Stored by the commit whose answer was lost: it was published to nobody, so it is no duplicate.
            let ours =
                self.answer_lost && message.at == new.message.at && message.device == new.message.device;
            *written = Some(match ours {
                true => SendOutcome::Sent(message.clone()),
                false => SendOutcome::Duplicate(message.clone()),
            });
        }
    }

    /// These are tool calls that came too soon, each with the time to wait. The same message may be in the commit more than
    /// once.
    pub fn refuse(&mut self, refused: &[(usize, i64)]) {
        for (position, retry_after_ms) in refused {
            let key = self.messages[*position].0.message.key;
            for ((new, _), written) in self.messages.iter().zip(&mut self.written) {
                if new.message.key == key && written.is_none() {
                    *written = Some(SendOutcome::TooManyToolCalls { retry_after_ms: *retry_after_ms });
                }
            }
        }
    }

    /// The tool calls among these.
    pub fn tool_calls(&self, open: &[usize]) -> impl Iterator<Item = &StoredMessage> {
        let new = open.iter().map(move |position| &self.messages[*position].0);
        new.filter(|new| new.tool_call).map(|new| &new.message)
    }

    /// What the senders are answered, and what is published.
    pub fn into_written(self) -> (Vec<SendOutcome>, Vec<CommittedMessage>) {
        let (mut committed, mut first) = (Vec::new(), HashMap::<MessageKey, Arc<StoredMessage>>::new());
        let mut answers = Vec::with_capacity(self.written.len());
        for (((new, _), written), stored) in self.messages.into_iter().zip(self.written).zip(self.stored) {
            let NewMessage { message, devices, queue, trace, .. } = new;
            let key = message.key;
            let sent = match written {
                None if stored => Arc::new(message),
                Some(SendOutcome::Sent(message)) => message,
                Some(other) => {
                    answers.push(other);
                    continue;
                }
                // The same message twice in one commit: the first one was stored.
                None => {
                    answers.push(first.get(&key).map_or(SendOutcome::DevicesChanged, |message| {
                        SendOutcome::Duplicate(message.clone())
                    }));
                    continue;
                }
            };
            if let Some(earlier) = first.get(&key) {
                answers.push(SendOutcome::Duplicate(earlier.clone()));
                continue;
            }
            first.insert(key, sent.clone());
            let session = queue.as_ref().and_then(|queue| queue.session.clone());
            let message = match queue {
                None => sent.clone(),
                Some(queue) => Arc::new(StoredMessage { body: queue.payload, ..StoredMessage::clone(&sent) }),
            };
            committed.push(CommittedMessage { message, devices, session, trace });
            answers.push(SendOutcome::Sent(sent));
        }
        (answers, committed)
    }

    pub fn give_seqs(&mut self, open: &[usize], seqs: Vec<i64>) {
        let mut seqs = seqs.into_iter();
        for position in open {
            give_seqs(&mut self.messages[*position].0.message, &mut seqs);
            self.stored[*position] = true;
        }
    }

    pub fn stored_entries(&self) -> impl Iterator<Item = &InboxEntry> {
        let stored = self.messages.iter().zip(&self.stored).filter(|(_, stored)| **stored);
        stored.flat_map(|((new, _), _)| &new.message.entries)
    }
}

pub(super) fn give_seqs(message: &mut StoredMessage, seqs: &mut impl Iterator<Item = i64>) {
    for entry in &mut message.entries {
        entry.seq = seqs.next().unwrap_or_default();
    }
}
