//! Pages of an inbox: rows as they are written, within one size and one number, whether they are stored or have a ttl.

use super::consumer::Consumer;
use crate::delivery::rows::VolatileFields;
use crate::store::lookup::InboxMessage;
use crate::store::stored_message::{InboxEntry, StoredMessage};
use serde_json::value::RawValue;

/// The most bytes of one answer, if it has more than one row. Old clients accept frames of 1 MiB.
const PAGE_BYTES: usize = 512 << 10;

/// What an answer has beside its rows, rather too much than too little.
const BESIDE_ROWS: usize = 8 << 10;

/// No client reads a larger row, because all of them refuse frames above 2 MiB. Nothing so large is accepted any more; one that
/// was stored by an earlier build is left out, as a message whose content is gone, so that those behind it can be read.
pub(crate) const MAX_ROW_BYTES: usize = (2 << 20) - (64 << 10);

/// The rows of one answer.
pub(crate) struct MessagePage {
    /// Ascending, those without a seq at the end.
    pub rows: Vec<Box<RawValue>>,
    /// The lowest seq of the rows.
    pub first: Option<i64>,
    /// How far the page goes: the seq of its last row, or the last seq there is. Whatever lies before it, from where the page was
    /// to begin, is in the page or cannot be shown.
    pub through: i64,
    /// Whether there is more than fits.
    pub more: bool,
    /// The last message that could not be shown in this form.
    pub skipped: Option<InboxMessage>,
    pub ephemeral_earliest: Option<i64>,
    pub ephemeral_dropped: u64,
    limit: usize,
    bytes: usize,
}

/// What became of a row that was to be added to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowFit {
    Added,
    /// This form has no row for it.
    Skipped,
    /// No page has it.
    TooLarge,
    /// The page is full: the row is the first of the next one.
    Full,
}

/// What every page says of the inbox of its consumer.
pub(crate) struct InboxBounds {
    pub server_ack_seq: i64,
    pub retention_floor_seq: i64,
    pub earliest_available_seq: Option<i64>,
}

impl InboxBounds {
    /// A cursor below the floor would never get past it: clients jump to `server_ack_seq`.
    pub fn new(ack: i64, floor: i64) -> InboxBounds {
        InboxBounds {
            server_ack_seq: ack.max(floor),
            retention_floor_seq: floor,
            earliest_available_seq: (floor > 0).then_some(floor + 1),
        }
    }
}

/// Which form of a row a client reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowForm {
    Plain,
    V2,
}

impl RowForm {
    fn row(
        self,
        message: &StoredMessage,
        entry: &InboxEntry,
        consumer: &Consumer,
        volatile: Option<&VolatileFields>,
    ) -> Option<Box<RawValue>> {
        match self {
            RowForm::Plain => message.plain_row(entry, &consumer.device, volatile),
            RowForm::V2 => message.v2_row(entry, &consumer.device, volatile),
        }
    }
}

impl MessagePage {
    /// With so many rows at most.
    pub fn new(through: i64, limit: usize) -> MessagePage {
        MessagePage {
            rows: Vec::new(),
            first: None,
            through,
            more: false,
            skipped: None,
            ephemeral_earliest: None,
            ephemeral_dropped: 0,
            limit,
            bytes: BESIDE_ROWS,
        }
    }

    /// Adds the row of a message with a seq.
    pub fn add_stored(&mut self, consumer: &Consumer, form: RowForm, found: InboxMessage) -> RowFit {
        let fit = self.add(consumer, form, &found.message, None);
        match fit {
            RowFit::Added => {
                self.first = Some(self.first.map_or(found.seq, |first| first.min(found.seq)));
            }
            RowFit::Skipped => self.skipped = Some(found),
            RowFit::TooLarge | RowFit::Full => {}
        }
        fit
    }

    /// Adds a row, if it fits. What counts is how long it is as it is written; the first row always fits.
    pub fn add(
        &mut self,
        consumer: &Consumer,
        form: RowForm,
        message: &StoredMessage,
        volatile: Option<&VolatileFields>,
    ) -> RowFit {
        let entry = message.entry(consumer.inbox);
        let Some(row) = entry.and_then(|entry| form.row(message, entry, consumer, volatile)) else {
            return RowFit::Skipped;
        };
        let with_comma = row.get().len() + 1;
        if with_comma > MAX_ROW_BYTES {
            return RowFit::TooLarge;
        }
        let full = self.rows.len() >= self.limit || self.bytes + with_comma > PAGE_BYTES;
        if full && !self.rows.is_empty() {
            return RowFit::Full;
        }
        self.bytes += with_comma;
        self.rows.push(row);
        RowFit::Added
    }
}
