//! The end of the log that is not filed yet, in memory. On PostgreSQL everything is filed at once and it stays empty.

use super::letter::{Key, Letter};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A letter's number in an inbox, and the letter.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub seq: i64,
    pub letter: Arc<Letter>,
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
    fn holds(&self, seq: i64, letter: &Letter) -> bool {
        self.after < seq
            && seq < self.before
            && self.sender.is_none_or(|sender| letter.from.as_str() == sender)
    }
}

#[derive(Default)]
pub(super) struct Tail {
    letters: VecDeque<Arc<Letter>>,
    inboxes: HashMap<i64, VecDeque<Entry>>,
    keys: HashMap<Key, Arc<Letter>>,
    bytes: usize,
}

impl Tail {
    pub fn push(&mut self, letter: Arc<Letter>) {
        self.bytes += letter.weight();
        for place in &letter.places {
            let entry = Entry { seq: place.seq, letter: letter.clone() };
            self.inboxes.entry(place.inbox).or_default().push_back(entry);
        }
        self.keys.insert(letter.key, letter.clone());
        self.letters.push_back(letter);
    }

    /// The oldest ones, to be filed.
    pub fn oldest(&self, most: usize) -> Vec<Arc<Letter>> {
        self.letters.iter().take(most).cloned().collect()
    }

    /// Forgets some of the letters up to this one, since they are filed; says whether there are more.
    pub fn filed(&mut self, through: i64, most: usize) -> bool {
        for _ in 0..most {
            let Some(letter) = self.letters.pop_front_if(|letter| letter.id <= through) else { return false };
            self.bytes -= letter.weight();
            self.keys.remove(&letter.key);
            for place in &letter.places {
                let Some(entries) = self.inboxes.get_mut(&place.inbox) else { continue };
                while entries.pop_front_if(|entry| entry.letter.id <= through).is_some() {}
                if entries.is_empty() {
                    self.inboxes.remove(&place.inbox);
                }
            }
        }
        true
    }

    /// Puts a changed letter in the place of the one it was.
    pub fn replace(&mut self, changed: &Arc<Letter>) {
        let Some(at) = self.letters.iter().rposition(|letter| letter.id == changed.id) else { return };
        self.bytes = self.bytes + changed.weight() - self.letters[at].weight();
        self.letters[at] = changed.clone();
        self.keys.insert(changed.key, changed.clone());
        for place in &changed.places {
            for entry in self.inboxes.get_mut(&place.inbox).into_iter().flatten() {
                if entry.letter.id == changed.id {
                    entry.letter = changed.clone();
                }
            }
        }
    }

    pub fn find(&self, key: &Key) -> Option<Arc<Letter>> {
        self.keys.get(key).cloned()
    }

    /// The entries of a span, ascending.
    pub fn entries(&self, span: Span<'_>) -> Vec<Entry> {
        let Some(entries) = self.inboxes.get(&span.inbox) else { return Vec::new() };
        entries.iter().filter(|entry| span.holds(entry.seq, &entry.letter)).cloned().collect()
    }

    /// The first number of an inbox that is only here.
    pub fn first(&self, inbox: i64) -> Option<i64> {
        self.inboxes.get(&inbox)?.front().map(|entry| entry.seq)
    }

    /// The last number of each sender in an inbox.
    pub fn senders(&self, inbox: i64) -> HashMap<String, i64> {
        let entries = self.inboxes.get(&inbox).into_iter().flatten();
        entries.map(|entry| (entry.letter.from.to_string(), entry.seq)).collect()
    }

    pub fn len(&self) -> usize {
        self.letters.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
