//! Messages as `post` takes them, which gives them their seqs: one column after the other, each as one text.

use crate::store::bind::{array, json};
use crate::store::write::{DeviceChanges, NewMessage};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Between two texts. JSON has no unescaped control character, so it is in none of them.
pub(super) const SEPARATOR: char = '\u{1f}';
/// Stands for a last seq that `post` has to read.
const UNKNOWN: i64 = -1;

#[derive(Default)]
pub(super) struct BatchWithoutSeqs {
    pub at: i64,
    pub keys: String,
    pub senders: String,
    /// Each message up to where its first seq goes.
    pub texts: String,
    /// The position of each message's first entry, counted from 1, and one more for the end.
    pub firsts: String,
    /// What follows each seq.
    pub rests: String,
    /// Of each entry: the inbox's position in `heads`, which of the new seqs there, and the message.
    pub entries: String,
    /// Of each inbox: its id, its last seq, and how often its agent's devices had changed.
    pub heads: String,
}

/// An inbox that messages go to or depend on.
#[derive(Default)]
pub(super) struct InboxHead {
    nth: usize,
    /// How many seqs were given, or the last one given.
    pub given: i64,
    pub changes: i64,
}

impl BatchWithoutSeqs {
    pub fn new(messages: &mut [(&mut NewMessage, &DeviceChanges)]) -> BatchWithoutSeqs {
        let mut heads = heads(messages);
        let at = messages.first().map_or(0, |(new, _)| new.message.at);
        let mut batch = BatchWithoutSeqs { at, ..BatchWithoutSeqs::default() };
        let (mut list, mut entries, mut firsts) = (Vec::new(), Vec::new(), vec![1]);
        for (inbox, head) in &heads {
            list.extend([*inbox, UNKNOWN, head.changes]);
        }
        for (nth, (new, _)) in messages.iter_mut().enumerate() {
            if nth > 0 {
                batch.keys.push(',');
                batch.senders.push(SEPARATOR);
                batch.texts.push(SEPARATOR);
            }
            batch.keys.push_str(&new.message.key.text());
            batch.senders.push_str(new.message.from.as_str());
            for entry in &new.message.entries {
                let Some(head) = heads.get_mut(&entry.inbox) else { continue };
                head.given += 1;
                entries.extend([head.nth as i64, head.given, nth as i64 + 1]);
            }
            batch.write(new);
            firsts.push(entries.len() / 3 + 1);
        }
        batch.heads = array(list);
        batch.entries = array(entries);
        batch.firsts = array(firsts);
        batch
    }

    /// The text of a message, in pieces that its seqs go between.
    fn write(&mut self, new: &mut NewMessage) {
        let entries = std::mem::take(&mut new.message.entries);
        let text = json(&new.message);
        // No member before it is an object, and in a string the quotes would be escaped: the first match is the member.
        let (front, back) = text.split_once(r#""places":["#).unwrap_or((&text, ""));
        self.texts.push_str(front);
        self.texts.push_str(r#""places":["#);
        for (position, entry) in entries.iter().enumerate() {
            let (inbox, _, copy, flags) = (*entry).into();
            // Writing to a string cannot fail.
            let _ = match position {
                0 => write!(self.texts, "[{inbox},"),
                _ => write!(self.rests, ",[{inbox},"),
            };
            if !self.rests.is_empty() {
                self.rests.push(SEPARATOR);
            }
            let _ = write!(self.rests, ",{copy},{flags}]");
        }
        if entries.is_empty() { &mut self.texts } else { &mut self.rests }.push_str(back);
        new.message.entries = entries;
    }
}

/// The inboxes that messages go to or depend on.
pub(super) fn heads(messages: &[(&mut NewMessage, &DeviceChanges)]) -> BTreeMap<i64, InboxHead> {
    let mut heads: BTreeMap<i64, InboxHead> = BTreeMap::new();
    for (new, changes) in messages {
        for entry in &new.message.entries {
            heads.entry(entry.inbox).or_default();
        }
        for (inbox, changes) in &changes.0 {
            let known = &mut heads.entry(*inbox).or_default().changes;
            // Where two disagree, one is out of date: the commit finds out which.
            *known = if *known == 0 || *known == *changes { *changes } else { -1 };
        }
    }
    for (nth, head) in heads.values_mut().enumerate() {
        head.nth = nth + 1;
    }
    heads
}
