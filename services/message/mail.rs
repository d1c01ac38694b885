//! Messages on their way through a commit on PostgreSQL.

use super::lasts::Lasts;
use super::ledger::{Bell, Changes, Done, Draft};
use super::numbered::Numbered;
use super::sheet::Sheet;
use super::stored_message::{Key, Place, StoredMessage};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Messages on their way, and what became of each.
pub(super) struct Mail {
    pub drafts: Vec<(Draft, Changes)>,
    pub done: Vec<Option<Done>>,
    /// Which of them have their numbers.
    pub stored: Vec<bool>,
    /// A connection broke in the middle of a commit, so some may have been stored without our knowing.
    pub lost: bool,
}

impl Mail {
    pub fn new(drafts: Vec<(Draft, Changes)>) -> Mail {
        let done = drafts.iter().map(|_| None).collect();
        Mail { stored: vec![false; drafts.len()], done, drafts, lost: false }
    }

    /// What is still to be stored: one of each name.
    pub fn open(&self) -> Vec<usize> {
        let mut names = HashSet::new();
        let key = |at: usize| self.drafts[at].0.message.key;
        let sent = |at: &usize| self.stored[*at] || matches!(self.done[*at], Some(Done::Sent(_)));
        names.extend((0..self.done.len()).filter(sent).map(key));
        let open = |at: &usize| !self.stored[*at] && self.done[*at].is_none() && names.insert(key(*at));
        (0..self.done.len()).filter(open).collect()
    }

    pub fn sheet(&mut self, open: &[usize]) -> Sheet {
        Sheet::new(&mut self.wanted(open))
    }

    /// The same with the numbers that follow the last ones, if those are known here.
    pub fn numbered_sheet(&mut self, open: &[usize], lasts: &Lasts) -> Option<Numbered> {
        Numbered::new(&mut self.wanted(open), lasts)
    }

    fn wanted(&mut self, open: &[usize]) -> Vec<(&mut Draft, &Changes)> {
        let mut wanted = open.iter().peekable();
        let mut drafts = Vec::with_capacity(open.len());
        for (at, (draft, changes)) in self.drafts.iter_mut().enumerate() {
            if wanted.next_if_eq(&&at).is_some() {
                drafts.push((draft, &*changes));
            }
        }
        drafts
    }

    pub fn known(&mut self, messages: Vec<Arc<StoredMessage>>) {
        let messages: HashMap<Key, Arc<StoredMessage>> =
            messages.into_iter().map(|message| (message.key, message)).collect();
        for ((draft, _), done) in self.drafts.iter().zip(&mut self.done) {
            let Some(message) = messages.get(&draft.message.key).filter(|_| done.is_none()) else { continue };
            // Stored by the commit whose answer we lost: nobody was told of it yet.
            let ours = self.lost && message.at == draft.message.at && message.device == draft.message.device;
            *done = Some(if ours { Done::Sent(message.clone()) } else { Done::Again(message.clone()) });
        }
    }

    /// What is told to the senders, and to the recipients.
    pub fn into_done(self) -> (Vec<Done>, Vec<Bell>) {
        let (mut bells, mut first) = (Vec::new(), HashMap::<Key, Arc<StoredMessage>>::new());
        let mut done = Vec::with_capacity(self.done.len());
        for (((draft, _), outcome), stored) in self.drafts.into_iter().zip(self.done).zip(self.stored) {
            let Draft { message, devices, queue, trace } = draft;
            let key = message.key;
            let sent = match outcome {
                None if stored => Arc::new(message),
                Some(Done::Sent(message)) => message,
                Some(other) => {
                    done.push(other);
                    continue;
                }
                // The same message twice in one commit: the first is the one.
                None => {
                    done.push(first.get(&key).map_or(Done::Stale, |message| Done::Again(message.clone())));
                    continue;
                }
            };
            if let Some(earlier) = first.get(&key) {
                done.push(Done::Again(earlier.clone()));
                continue;
            }
            first.insert(key, sent.clone());
            let seat = queue.as_ref().and_then(|queued| queued.seat.clone());
            let message = match queue {
                None => sent.clone(),
                Some(queued) => {
                    Arc::new(StoredMessage { body: queued.payload, ..StoredMessage::clone(&sent) })
                }
            };
            bells.push(Bell { message, devices, seat, trace });
            done.push(Done::Sent(sent));
        }
        (done, bells)
    }

    pub fn number(&mut self, open: &[usize], numbers: Vec<i64>) {
        let mut seqs = numbers.into_iter();
        for at in open {
            number(&mut self.drafts[*at].0.message, &mut seqs);
            self.stored[*at] = true;
        }
    }

    /// The places that got their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = &Place> {
        let stored = self.drafts.iter().zip(&self.stored).filter(|(_, stored)| **stored);
        stored.flat_map(|((draft, _), _)| &draft.message.places)
    }
}

pub(super) fn number(message: &mut StoredMessage, seqs: &mut impl Iterator<Item = i64>) {
    for place in &mut message.places {
        place.seq = seqs.next().unwrap_or_default();
    }
}
