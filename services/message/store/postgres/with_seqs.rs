//! Messages that this process gave their seqs, as `post_numbered` takes them: columns of messages and of inbox entries, each
//! as one text.

use super::last_seqs::LastSeqs;
use super::without_seqs::{SEPARATOR, heads};
use crate::store::bind::{array, json};
use crate::store::write::{DeviceChanges, NewMessage};

pub(super) struct BatchWithSeqs {
    pub at: i64,
    pub keys: String,
    pub senders: String,
    pub texts: String,
    entries: Vec<EntryRow>,
    /// Of each inbox entry, in the order of the messages.
    pub seqs: Vec<i64>,
}

/// Sorted by inbox, so that two commits seldom wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EntryRow {
    inbox: i64,
    seq: i64,
    changes: i64,
    /// Counted from 1; negative for all but the first entry of a message.
    message: i64,
}

impl BatchWithSeqs {
    /// None if the last seq of an inbox is not known here, or if the devices of an inbox are to be checked that gets no
    /// message.
    pub fn new(
        messages: &mut [(&mut NewMessage, &DeviceChanges)],
        last_seqs: &LastSeqs,
    ) -> Option<BatchWithSeqs> {
        let mut heads = heads(messages);
        let known = last_seqs.take(heads.keys().copied())?;
        for (head, last) in heads.values_mut().zip(&known) {
            head.given = *last;
        }
        let mut batch = BatchWithSeqs {
            at: messages.first()?.0.message.at,
            keys: String::with_capacity(messages.len() * 33),
            senders: String::new(),
            texts: String::new(),
            entries: Vec::with_capacity(messages.len()),
            seqs: Vec::with_capacity(messages.len()),
        };
        for (nth, (new, _)) in (1..).zip(messages.iter_mut()) {
            if new.message.entries.is_empty() {
                return None;
            }
            let mut message = nth;
            for entry in &mut new.message.entries {
                let head = heads.get_mut(&entry.inbox)?;
                head.given += 1;
                entry.seq = head.given;
                batch.seqs.push(entry.seq);
                let row = EntryRow { inbox: entry.inbox, seq: entry.seq, changes: head.changes, message };
                batch.entries.push(row);
                message = -nth;
            }
            batch.write(new);
        }
        let given = heads.values().zip(&known).all(|(head, last)| head.given > *last);
        batch.entries.sort_unstable();
        given.then_some(batch)
    }

    fn write(&mut self, new: &NewMessage) {
        if !self.keys.is_empty() {
            self.keys.push(',');
            self.senders.push(SEPARATOR);
            self.texts.push(SEPARATOR);
        }
        self.keys.push_str(&new.message.key.text());
        self.senders.push_str(new.message.from.as_str());
        self.texts.push_str(&json(&new.message));
    }

    /// Inboxes, seqs, changes and messages.
    pub fn columns(&self) -> [String; 4] {
        let column = |of: fn(&EntryRow) -> i64| array(self.entries.iter().map(of));
        [column(|row| row.inbox), column(|row| row.seq), column(|row| row.changes), column(|row| row.message)]
    }
}
