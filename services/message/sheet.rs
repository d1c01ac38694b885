//! Messages as PostgreSQL's `post` takes them, which gives them their numbers: a column after the other, each as one text.

use super::ledger::{Changes, Draft};
use super::store::json;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

/// Parts texts. JSON holds no control character, so it is in none of them.
pub(super) const PART: char = '\u{1f}';
/// What stands for a last number that `post` has to ask for.
const UNKNOWN: i64 = -1;

#[derive(Default)]
pub(super) struct Sheet {
    pub at: i64,
    pub keys: String,
    pub senders: String,
    pub texts: String,
    pub firsts: String,
    pub rests: String,
    pub places: String,
    pub heads: String,
}

/// What is asked of an inbox.
#[derive(Default)]
pub(super) struct Head {
    nth: usize,
    pub given: i64,
    pub changes: i64,
}

impl Sheet {
    pub fn new(drafts: &mut [(&mut Draft, &Changes)]) -> Sheet {
        let mut heads = heads(drafts);
        let mut sheet =
            Sheet { at: drafts.first().map_or(0, |(draft, _)| draft.message.at), ..Sheet::default() };
        let (mut list, mut places, mut firsts) = (Vec::new(), Vec::new(), vec![1]);
        for (inbox, head) in &heads {
            list.extend([*inbox, UNKNOWN, head.changes]);
        }
        for (nth, (draft, _)) in drafts.iter_mut().enumerate() {
            if nth > 0 {
                sheet.keys.push(',');
                sheet.senders.push(PART);
                sheet.texts.push(PART);
            }
            sheet.keys.push_str(&draft.message.key.text());
            sheet.senders.push_str(draft.message.from.as_str());
            for place in &draft.message.places {
                let Some(head) = heads.get_mut(&place.inbox) else { continue };
                head.given += 1;
                places.extend([head.nth as i64, head.given, nth as i64 + 1]);
            }
            sheet.write(draft);
            firsts.push(places.len() / 3 + 1);
        }
        sheet.heads = array(list);
        sheet.places = array(places);
        sheet.firsts = array(firsts);
        sheet
    }

    /// The text of a message, open where its numbers go.
    fn write(&mut self, draft: &mut Draft) {
        let places = std::mem::take(&mut draft.message.places);
        let text = json(&draft.message);
        // Nothing before it is an object, and in a string the quotes would be escaped: the first one is the one.
        let (front, back) = text.split_once(r#""places":["#).unwrap_or((&text, ""));
        self.texts.push_str(front);
        self.texts.push_str(r#""places":["#);
        for (at, place) in places.iter().enumerate() {
            let (inbox, _, copy, flags) = (*place).into();
            // Writing to a string cannot fail.
            let _ = match at {
                0 => write!(self.texts, "[{inbox},"),
                _ => write!(self.rests, ",[{inbox},"),
            };
            if !self.rests.is_empty() {
                self.rests.push(PART);
            }
            let _ = write!(self.rests, ",{copy},{flags}]");
        }
        if places.is_empty() { &mut self.texts } else { &mut self.rests }.push_str(back);
        draft.message.places = places;
    }
}

/// The inboxes that messages go to or depend on.
pub(super) fn heads(drafts: &[(&mut Draft, &Changes)]) -> BTreeMap<i64, Head> {
    let mut heads: BTreeMap<i64, Head> = BTreeMap::new();
    for (draft, changes) in drafts {
        for place in &draft.message.places {
            heads.entry(place.inbox).or_default();
        }
        for (inbox, changes) in &changes.0 {
            let known = &mut heads.entry(*inbox).or_default().changes;
            // Where two disagree, one is out of date: that is for the commit to find out.
            *known = if *known == 0 || *known == *changes { *changes } else { -1 };
        }
    }
    for (nth, head) in heads.values_mut().enumerate() {
        head.nth = nth + 1;
    }
    heads
}

/// As PostgreSQL writes an array of numbers.
pub(super) fn array<T: Display>(numbers: impl IntoIterator<Item = T>) -> String {
    let mut text = String::from("{");
    for (at, number) in numbers.into_iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}{number}", if at > 0 { "," } else { "" });
    }
    text.push('}');
    text
}
