//! Pages of an inbox: what is in the log and what is only in memory, in one order, within one size.

use super::Error;
use super::Message;
use super::consumer::Consumer;
use super::rows::Fleeting;
use super::stored_message::{Kind, Place, StoredMessage};
use super::tail::{Entry, Span};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::Arc;

/// What one answer holds at most, if it holds more than one row. Old clients take frames of 1 MiB.
const PAGE_BYTES: usize = 512 << 10;

/// Some messages of an inbox in the order of their numbers.
pub(super) struct Slice {
    pub entries: Vec<Entry>,
    /// The last number that was looked at.
    pub through: i64,
    pub more: bool,
    pub ephemeral_earliest: Option<i64>,
    pub ephemeral_dropped: u64,
}

/// The rows of a slice as far as they fit into one answer.
pub(super) struct Page {
    pub rows: Vec<Box<RawValue>>,
    pub first: Option<i64>,
    pub through: i64,
    pub more: bool,
    /// The last message that could not be shown in this form.
    pub skipped: Option<Entry>,
}

/// Where an inbox stands for one consumer, as every page says it.
#[derive(Clone, Serialize)]
pub(super) struct Bounds {
    pub server_ack_seq: i64,
    pub retention_floor_seq: i64,
    pub earliest_available_seq: Option<i64>,
}

impl Bounds {
    /// A cursor below the floor would never get past it: clients jump to `server_ack_seq`.
    pub fn new(ack: i64, floor: i64) -> Bounds {
        Bounds {
            server_ack_seq: ack.max(floor),
            retention_floor_seq: floor,
            earliest_available_seq: (floor > 0).then_some(floor + 1),
        }
    }
}

impl Message {
    /// The first messages after a number.
    pub(super) async fn forward(
        &self,
        consumer: &Consumer,
        after: i64,
        sender: Option<&str>,
        limit: usize,
    ) -> Result<Slice, Error> {
        let ring = self.queued_after(&consumer.aid, consumer.inbox, after).await?;
        let queued: HashMap<i64, Arc<StoredMessage>> = ring.rows.into_iter().collect();
        let mut slice = Slice {
            entries: Vec::new(),
            through: after,
            more: true,
            ephemeral_earliest: ring.earliest,
            ephemeral_dropped: ring.dropped,
        };
        // Numbers whose content is gone do not fill a page: some clients take a short one for the last.
        while slice.more && slice.entries.len() < limit {
            let wanted = limit - slice.entries.len();
            let span = Span { inbox: consumer.inbox, after: slice.through, before: i64::MAX, sender };
            let mut entries = self.store.first(span, wanted + 1).await?;
            slice.more = entries.len() > wanted;
            entries.truncate(wanted);
            slice.through = entries.last().map_or(slice.through, |entry| entry.seq);
            slice.entries.extend(entries.into_iter().filter_map(|entry| content(entry, &queued)));
        }
        Ok(slice)
    }

    /// The last messages before a number and after another. Queue messages are no part of the past.
    pub(super) async fn backward(
        &self,
        consumer: &Consumer,
        (after, before): (i64, i64),
        sender: Option<&str>,
        limit: usize,
    ) -> Result<Slice, Error> {
        let span = Span { inbox: consumer.inbox, after, before, sender };
        let mut entries = self.store.last(span, limit + 1).await?;
        let more = entries.len() > limit;
        if more {
            entries.remove(0);
        }
        let through = entries.last().map_or(after, |entry| entry.seq);
        entries.retain(|entry| entry.message.kind != Kind::Queue);
        Ok(Slice { entries, through, more, ephemeral_earliest: None, ephemeral_dropped: 0 })
    }
}

/// The log keeps only the number of a queue message; its content is in the ring or gone.
fn content(entry: Entry, queued: &HashMap<i64, Arc<StoredMessage>>) -> Option<Entry> {
    match entry.message.kind {
        Kind::Queue => Some(Entry { seq: entry.seq, message: queued.get(&entry.seq)?.clone() }),
        Kind::Plain | Kind::V1 | Kind::V2 | Kind::Recall => Some(entry),
    }
}

/// Which form of a row a client reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    V2,
}

impl Form {
    pub fn row(
        self,
        message: &StoredMessage,
        place: &Place,
        consumer: &Consumer,
        fleeting: Option<&Fleeting>,
    ) -> Option<Box<RawValue>> {
        match self {
            Form::Plain => message.plain_row(place, &consumer.device, fleeting, None),
            Form::V2 => message.v2_row(place, &consumer.device, fleeting),
        }
    }
}

impl Slice {
    /// Writes the rows, first to last, until the answer is full.
    pub fn page(self, consumer: &Consumer, form: Form) -> Page {
        let mut page =
            Page { rows: Vec::new(), first: None, through: self.through, more: self.more, skipped: None };
        let (mut bytes, mut last) = (0, None);
        for entry in self.entries {
            let Some(place) = entry.message.place(consumer.inbox) else { continue };
            let Some(row) = form.row(&entry.message, place, consumer, None) else {
                page.skipped = Some(entry);
                continue;
            };
            bytes += row.get().len();
            if bytes > PAGE_BYTES && !page.rows.is_empty() {
                page.more = true;
                page.through = last.unwrap_or(page.through);
                break;
            }
            page.first.get_or_insert(entry.seq);
            last = Some(entry.seq);
            page.rows.push(row);
        }
        page
    }

    /// The same from the newest to the oldest: what does not fit is the old end.
    pub fn page_from_end(mut self, consumer: &Consumer, form: Form) -> Page {
        let (mut bytes, mut from) = (0, self.entries.len());
        for (at, entry) in self.entries.iter().enumerate().rev() {
            bytes += entry.message.weight();
            if bytes > PAGE_BYTES && from < self.entries.len() {
                self.more = true;
                break;
            }
            from = at;
        }
        self.entries.drain(..from);
        self.page(consumer, form)
    }
}
