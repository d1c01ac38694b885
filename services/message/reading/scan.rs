//! Reading an inbox in the order of its seqs, from either end: messages of the log and the content of queue messages, until a
//! page is full or nothing is left.

use super::consumer::Consumer;
use super::page::{MessagePage, RowFit, RowForm};
use crate::store::ephemeral::queue_messages::QueuePage;
use crate::store::lookup::{InboxMessage, SeqRange};
use crate::store::stored_message::{MessageKind, StoredMessage};
use crate::{Error, MessageService};
use kernel::Aid;
use std::collections::HashMap;
use std::sync::Arc;

/// How many messages are read at once, where those before them had no content.
const MAX_BATCH: usize = 200;

/// Which rows a page is made of.
#[derive(Clone, Copy)]
pub(crate) struct PageQuery<'a> {
    pub form: RowForm,
    /// Only those of this sender.
    pub sender: Option<&'a str>,
    pub limit: usize,
}

/// Whether queue messages are part of what is read backwards.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithQueue {
    /// As long as they have content.
    Yes,
    /// They are not part of the history.
    No,
}

/// Whether a message can be shown: the content of a queue message is in memory for a while, and then gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HasContent {
    Yes,
    No,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanOrder {
    OldestFirst,
    NewestFirst,
}

/// The content of queue messages, by their seqs.
type QueueContents = HashMap<i64, Arc<StoredMessage>>;

impl MessageService {
    /// The first messages after a seq.
    pub(crate) async fn forward(
        &self,
        consumer: &Consumer,
        after: i64,
        query: PageQuery<'_>,
    ) -> Result<MessagePage, Error> {
        let queue = self.queue_messages_after(&consumer.aid, consumer.inbox, after).await?;
        let contents: QueueContents = queue.rows.into_iter().collect();
        let mut page = MessagePage::new(after, query.limit);
        (page.ephemeral_earliest, page.ephemeral_dropped) = (queue.earliest, queue.dropped);
        let bounds = (after, i64::MAX);
        self.fill(&mut page, consumer, bounds, query, (ScanOrder::OldestFirst, &contents)).await?;
        Ok(page)
    }

    /// So many messages after a seq at most, each with whether it has its content.
    pub(crate) async fn with_content_after(
        &self,
        consumer: &Consumer,
        after: i64,
        most: usize,
    ) -> Result<Vec<(InboxMessage, HasContent)>, Error> {
        let range = SeqRange { inbox: consumer.inbox, after, before: i64::MAX, sender: None };
        let found = self.store.first(range, most).await?;
        let queue = self.queue_messages_after(&consumer.aid, consumer.inbox, after).await?;
        let contents: QueueContents = queue.rows.into_iter().collect();
        let with_content = found.into_iter().map(|one| match with_content(one.clone(), &contents) {
            Some(one) => (one, HasContent::Yes),
            None => (one, HasContent::No),
        });
        Ok(with_content.collect())
    }

    /// The last messages before a seq and after another. What does not fit are the oldest.
    pub(crate) async fn backward(
        &self,
        consumer: &Consumer,
        (after, before): (i64, i64),
        query: PageQuery<'_>,
        queue: WithQueue,
    ) -> Result<MessagePage, Error> {
        let contents: QueueContents = match queue {
            WithQueue::No => HashMap::new(),
            WithQueue::Yes => {
                let queue = self.queue_messages_after(&consumer.aid, consumer.inbox, after).await?;
                queue.rows.into_iter().collect()
            }
        };
        let mut page = MessagePage::new(before, query.limit);
        let bounds = (after, before);
        self.fill(&mut page, consumer, bounds, query, (ScanOrder::NewestFirst, &contents)).await?;
        page.rows.reverse();
        Ok(page)
    }

    /// Goes on over seqs that have nothing to show: some clients take a short page for the last, all of them an empty one. A row
    /// that does not fit is not covered by the page: `through` stays before it.
    async fn fill(
        &self,
        page: &mut MessagePage,
        consumer: &Consumer,
        (after, before): (i64, i64),
        query: PageQuery<'_>,
        (order, contents): (ScanOrder, &QueueContents),
    ) -> Result<(), Error> {
        let mut range = SeqRange { inbox: consumer.inbox, after, before, sender: query.sender };
        let (mut left, mut batch) = (query.limit, query.limit);
        loop {
            let mut found: Vec<InboxMessage> = match order {
                ScanOrder::OldestFirst => self.store.first(range, batch + 1).await?,
                ScanOrder::NewestFirst => {
                    self.store.last(range, batch + 1).await?.into_iter().rev().collect()
                }
            };
            page.more = found.len() > batch;
            found.truncate(batch);
            let left_before = left;
            for one in found {
                let seq = one.seq;
                if let Some(one) = with_content(one, contents) {
                    let fit =
                        if left > 0 { page.add_stored(consumer, query.form, one) } else { RowFit::Full };
                    match fit {
                        RowFit::Added | RowFit::Skipped => {
                            left -= 1;
                            page.through = seq;
                        }
                        RowFit::TooLarge => {}
                        RowFit::Full => {
                            page.more = true;
                            return Ok(());
                        }
                    }
                }
                match order {
                    ScanOrder::OldestFirst => range.after = seq,
                    ScanOrder::NewestFirst => range.before = seq,
                }
            }
            if !page.more {
                page.through = if order == ScanOrder::OldestFirst { range.after } else { range.before };
                return Ok(());
            }
            if left == 0 {
                return Ok(());
            }
            batch = if left < left_before { left } else { (2 * batch).min(MAX_BATCH) };
        }
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
                let copy = self.queue_messages.copy(shared, aid).await?;
                Ok(copy.after(aid, inbox, after, now, usize::MAX))
            }
        }
    }
}

/// The log has only the seq of a queue message; its content is stored for a while, then gone.
fn with_content(found: InboxMessage, contents: &QueueContents) -> Option<InboxMessage> {
    match found.message.kind {
        MessageKind::Queue => {
            Some(InboxMessage { seq: found.seq, message: contents.get(&found.seq)?.clone() })
        }
        MessageKind::Plain | MessageKind::V1 | MessageKind::V2 | MessageKind::Recall => Some(found),
    }
}
