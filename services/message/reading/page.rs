//! Pages of an inbox: messages of the log and the content of queue messages, in the order of their seqs, within one size.

use super::consumer::Consumer;
use crate::kernel::Aid;
use crate::message::Error;
use crate::message::Message;
use crate::message::delivery::rows::VolatileFields;
use crate::message::store::ephemeral::queue_messages::{QueueMessages, QueuePage};
use crate::message::store::lookup::{InboxMessage, SeqRange};
use crate::message::store::stored_message::{InboxEntry, MessageKind, StoredMessage};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::Arc;

/// The most bytes of one answer, if it has more than one row. Old clients accept frames of 1 MiB.
const PAGE_BYTES: usize = 512 << 10;

/// Some messages of an inbox in the order of their seqs.
pub(crate) struct InboxSlice {
    pub messages: Vec<InboxMessage>,
    /// The last seq that was looked at.
    pub through: i64,
    pub more: bool,
    pub ephemeral_earliest: Option<i64>,
    pub ephemeral_dropped: u64,
}

/// The rows of a slice as far as they fit into one answer.
pub(crate) struct MessagePage {
    pub rows: Vec<Box<RawValue>>,
    pub first: Option<i64>,
    pub through: i64,
    pub more: bool,
    /// The last message that could not be shown in this form.
    pub skipped: Option<InboxMessage>,
}

/// What every page says of the inbox of its consumer.
#[derive(Clone, Serialize)]
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

impl Message {
    /// The first messages after a seq.
    pub(crate) async fn forward(
        &self,
        consumer: &Consumer,
        after: i64,
        sender: Option<&str>,
        limit: usize,
    ) -> Result<InboxSlice, Error> {
        let queue = self.queue_messages_after(&consumer.aid, consumer.inbox, after).await?;
        let contents: HashMap<i64, Arc<StoredMessage>> = queue.rows.into_iter().collect();
        let mut slice = InboxSlice {
            messages: Vec::new(),
            through: after,
            more: true,
            ephemeral_earliest: queue.earliest,
            ephemeral_dropped: queue.dropped,
        };
        // Seqs whose content is gone do not fill a page: some clients take a short one for the last.
        while slice.more && slice.messages.len() < limit {
            let wanted = limit - slice.messages.len();
            let range = SeqRange { inbox: consumer.inbox, after: slice.through, before: i64::MAX, sender };
            let mut found = self.store.first(range, wanted + 1).await?;
            slice.more = found.len() > wanted;
            found.truncate(wanted);
            slice.through = found.last().map_or(slice.through, |last| last.seq);
            slice.messages.extend(found.into_iter().filter_map(|one| with_content(one, &contents)));
        }
        Ok(slice)
    }

    /// The last messages before a seq and after another. Queue messages are not part of the history.
    pub(crate) async fn backward(
        &self,
        consumer: &Consumer,
        (after, before): (i64, i64),
        sender: Option<&str>,
        limit: usize,
    ) -> Result<InboxSlice, Error> {
        let range = SeqRange { inbox: consumer.inbox, after, before, sender };
        let mut messages = self.store.last(range, limit + 1).await?;
        let more = messages.len() > limit;
        if more {
            messages.remove(0);
        }
        let through = messages.last().map_or(after, |last| last.seq);
        messages.retain(|one| one.message.kind != MessageKind::Queue);
        Ok(InboxSlice { messages, through, more, ephemeral_earliest: None, ephemeral_dropped: 0 })
    }

    /// What a device may still pull of its queue messages, in memory or as all processes share them.
    async fn queue_messages_after(
        &self,
        aid: &Aid,
        inbox: i64,
        after: i64,
    ) -> sqlx::Result<QueuePage<Arc<StoredMessage>>> {
        let now = self.clock.now_ms();
        match &self.shared {
            None => Ok(self.queue_messages.after(aid, inbox, after, now, usize::MAX)),
            Some(shared) => {
                let copy = QueueMessages::copy(shared, aid).await?;
                Ok(copy.after(aid, inbox, after, now, usize::MAX))
            }
        }
    }
}

/// The log has only the seq of a queue message; its content is stored for a while, then gone.
fn with_content(found: InboxMessage, contents: &HashMap<i64, Arc<StoredMessage>>) -> Option<InboxMessage> {
    match found.message.kind {
        MessageKind::Queue => {
            Some(InboxMessage { seq: found.seq, message: contents.get(&found.seq)?.clone() })
        }
        MessageKind::Plain | MessageKind::V1 | MessageKind::V2 | MessageKind::Recall => Some(found),
    }
}

/// Which form of a row a client reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowForm {
    Plain,
    V2,
}

impl RowForm {
    pub fn row(
        self,
        message: &StoredMessage,
        entry: &InboxEntry,
        consumer: &Consumer,
        volatile: Option<&VolatileFields>,
    ) -> Option<Box<RawValue>> {
        match self {
            RowForm::Plain => message.plain_row(entry, &consumer.device, volatile, None),
            RowForm::V2 => message.v2_row(entry, &consumer.device, volatile),
        }
    }
}

impl InboxSlice {
    /// Writes the rows, first to last, until the answer is full.
    pub fn page(self, consumer: &Consumer, form: RowForm) -> MessagePage {
        let mut page = MessagePage {
            rows: Vec::new(),
            first: None,
            through: self.through,
            more: self.more,
            skipped: None,
        };
        let (mut bytes, mut last) = (0, None);
        for found in self.messages {
            let Some(entry) = found.message.entry(consumer.inbox) else { continue };
            let Some(row) = form.row(&found.message, entry, consumer, None) else {
                page.skipped = Some(found);
                continue;
            };
            bytes += row.get().len();
            if bytes > PAGE_BYTES && !page.rows.is_empty() {
                page.more = true;
                page.through = last.unwrap_or(page.through);
                break;
            }
            page.first.get_or_insert(found.seq);
            last = Some(found.seq);
            page.rows.push(row);
        }
        page
    }

    /// The same from the newest to the oldest: what does not fit are the oldest.
    pub fn page_from_end(mut self, consumer: &Consumer, form: RowForm) -> MessagePage {
        let (mut bytes, mut from) = (0, self.messages.len());
        for (position, found) in self.messages.iter().enumerate().rev() {
            bytes += found.message.bytes();
            if bytes > PAGE_BYTES && from < self.messages.len() {
                self.more = true;
                break;
            }
            from = position;
        }
        self.messages.drain(..from);
        self.page(consumer, form)
    }
}
