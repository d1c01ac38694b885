//! Messages whose numbers this process gave, as PostgreSQL's `post_numbered` takes them: columns of messages and of places,
//! each as one text.

use super::lasts::Lasts;
use super::ledger::{Changes, Draft};
use super::sheet::{PART, array, heads};
use super::store::json;

pub(super) struct Numbered {
    pub at: i64,
    pub keys: String,
    pub senders: String,
    pub texts: String,
    places: Vec<Row>,
    /// Of each place, in the order of the messages.
    pub numbers: Vec<i64>,
}

/// Sorted by inbox, so that two commits seldom wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    inbox: i64,
    seq: i64,
    changes: i64,
    message: i64,
}

impl Numbered {
    /// Nothing if the last number of an inbox is not known here, or if there is an inbox to look at and no number to give.
    pub fn new(drafts: &mut [(&mut Draft, &Changes)], lasts: &Lasts) -> Option<Numbered> {
        let mut heads = heads(drafts);
        let known = lasts.take(heads.keys().copied())?;
        for (head, last) in heads.values_mut().zip(&known) {
            head.given = *last;
        }
        let mut sheet = Numbered {
            at: drafts.first()?.0.message.at,
            keys: String::with_capacity(drafts.len() * 33),
            senders: String::new(),
            texts: String::new(),
            places: Vec::with_capacity(drafts.len()),
            numbers: Vec::with_capacity(drafts.len()),
        };
        for (nth, (draft, _)) in (1..).zip(drafts.iter_mut()) {
            if draft.message.places.is_empty() {
                return None;
            }
            let mut message = nth;
            for place in &mut draft.message.places {
                let head = heads.get_mut(&place.inbox)?;
                head.given += 1;
                place.seq = head.given;
                sheet.numbers.push(place.seq);
                sheet.places.push(Row { inbox: place.inbox, seq: place.seq, changes: head.changes, message });
                message = -nth;
            }
            sheet.write(draft);
        }
        let given = heads.values().zip(&known).all(|(head, last)| head.given > *last);
        sheet.places.sort_unstable();
        given.then_some(sheet)
    }

    fn write(&mut self, draft: &Draft) {
        if !self.keys.is_empty() {
            self.keys.push(',');
            self.senders.push(PART);
            self.texts.push(PART);
        }
        self.keys.push_str(&draft.message.key.text());
        self.senders.push_str(draft.message.from.as_str());
        self.texts.push_str(&json(&draft.message));
    }

    /// Inboxes, numbers, changes and messages.
    pub fn columns(&self) -> [String; 4] {
        let column = |of: fn(&Row) -> i64| array(self.places.iter().map(of));
        [column(|row| row.inbox), column(|row| row.seq), column(|row| row.changes), column(|row| row.message)]
    }
}
