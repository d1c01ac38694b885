//! `message.v2.pull`: rows of every kind after a seq, of all senders or of one; or the newest ones.

use super::peer_scope;
use crate::reading::consumer::{Consumer, ConsumerClaim};
use crate::reading::page::{InboxBounds, MessagePage, RowForm};
use crate::reading::scan::{PageQuery, WithQueue};
use crate::reading::volatile::VolatilePageFields;
use crate::store::lookup::SeqRange;
use crate::{Error, MessageService};
use kernel::{Aid, Caller, PageLimit};
use proto_schemas::requests::message::v2::{Pull, V2InboxPage, WindowMode};
use proto_schemas::requests::message::{CursorScope, Seq};
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(50, 50);
const PAGE_OF_PEER: PageLimit = PageLimit::new(200, 200);

impl MessageService {
    pub(in super::super) async fn v2_pull(
        self: Arc<Self>,
        caller: Caller,
        pull: Pull,
    ) -> Result<V2InboxPage, Error> {
        let claim = ConsumerClaim { device_id: pull.device_id.as_deref(), slot_id: pull.slot_id.as_deref() };
        let consumer = self.consumer(&caller, claim).await?;
        let sender = peer_scope(pull.cursor_scope.as_deref(), pull.sender_aid)?;
        let page = if sender.is_some() { PAGE_OF_PEER } else { PAGE };
        let limit = page.nearest(pull.limit);
        let after = pull.after_seq.unwrap_or_default().get();
        match pull.window_mode.as_deref() {
            None | Some("") => {}
            Some("tail") if pull.force == Some(true) || pull.ack_up_to_seq.is_some() => {
                let sentence = "window_mode: tail cannot be combined with force or ack_up_to_seq";
                return Err(Error::Param(sentence.to_owned()));
            }
            Some("tail") => return self.newest(&consumer, sender, after, limit).await,
            Some(other) => {
                return Err(Error::Param(format!("window_mode must be tail or absent, not {other:?}")));
            }
        }
        if let Some(seq) = pull.ack_up_to_seq.map(Seq::get) {
            self.advance(&consumer, sender.as_ref(), seq).await?;
        }
        let cursor = pull.after_volatile_cursor.as_deref();
        match sender {
            None => self.of_all(&consumer, after, cursor, limit).await,
            Some(sender) => self.of_peer(&consumer, sender, after, cursor, limit).await,
        }
    }

    async fn of_all(
        &self,
        consumer: &Consumer,
        after: i64,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<V2InboxPage, Error> {
        let query = PageQuery { form: RowForm::V2, sender: None, limit };
        let mut page = self.forward(consumer, after, query).await?;
        let bounds = self.bounds(consumer).await?;
        let volatile = self.add_volatile(consumer, cursor, None, RowForm::V2, &mut page).await?;
        // Clients that do not know messages with a ttl are told nothing about them.
        let any = volatile.latest_volatile_cursor.is_some() || volatile.volatile_has_more;
        let volatile = (cursor.is_some() || any).then_some(volatile);
        let more = page.more;
        Ok(inbox_page(page, more, bounds, volatile))
    }

    async fn of_peer(
        &self,
        consumer: &Consumer,
        sender: Aid,
        after: i64,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<V2InboxPage, Error> {
        let floor = self.store.inbox_state(consumer.inbox).await?.floor;
        let scan_after_seq = after.max(floor);
        let from = Some(sender.as_str());
        let query = PageQuery { form: RowForm::V2, sender: from, limit };
        let mut page = self.forward(consumer, scan_after_seq, query).await?;
        let head = self.peer_head(consumer, &sender).await?;
        let persistent_has_more = page.more;
        // A message that came since the page was read is left to the next one.
        let covered = if page.more { page.through } else { page.through.max(scan_after_seq) };
        let head_seq = if page.more { head.max(covered + 1) } else { covered };
        let ack = self.peer_cursor(consumer, &sender).await?;
        let volatile = self.add_volatile(consumer, cursor, from, RowForm::V2, &mut page).await?;
        let more = persistent_has_more || volatile.volatile_has_more;
        let page = inbox_page(page, more, InboxBounds::new(ack, floor), Some(volatile));
        Ok(V2InboxPage {
            scan_after_seq: Some(scan_after_seq),
            covered_through_seq: Some(covered),
            next_after_seq: Some(covered),
            head_seq: Some(head_seq),
            persistent_has_more: Some(persistent_has_more),
            ..of_sender(page, consumer, sender)
        })
    }

    /// The newest rows, for a client that is far behind and shows the end first.
    async fn newest(
        &self,
        consumer: &Consumer,
        sender: Option<Aid>,
        after: i64,
        limit: usize,
    ) -> Result<V2InboxPage, Error> {
        let (head, ack) = match &sender {
            None => {
                let ack = self.store.cursor(consumer.inbox, &consumer.slot, "").await?.unwrap_or(0);
                (self.store.inbox_state(consumer.inbox).await?.head, ack)
            }
            Some(sender) => {
                (self.peer_head(consumer, sender).await?, self.peer_cursor(consumer, sender).await?)
            }
        };
        let floor = self.store.inbox_state(consumer.inbox).await?.floor;
        let query = PageQuery { form: RowForm::V2, sender: sender.as_ref().map(Aid::as_str), limit };
        let start = match sender {
            // "head − window_start + 1 ≤ limit" (message.v2.pull): the window of the whole inbox is dense.
            None => after.max(floor).max(head - limit as i64),
            Some(_) => after.max(floor),
        };
        // The window covers everything between its first row and the head. So queue messages are in it, as in any other page.
        let mut page = self.backward(consumer, (start, head + 1), query, WithQueue::Yes).await?;
        page.through = head.max(after);
        let window_start_seq = page.first.unwrap_or(head);
        let window = V2InboxPage {
            window_mode: Some(WindowMode::Tail),
            window_start_seq: Some(window_start_seq),
            head_seq: Some(head),
            covered_through_seq: Some(head),
            ..inbox_page(page, false, InboxBounds::new(ack, floor), None)
        };
        Ok(match sender {
            Some(sender) => of_sender(window, consumer, sender),
            None => window,
        })
    }

    async fn peer_head(&self, consumer: &Consumer, sender: &Aid) -> Result<i64, Error> {
        let sender = Some(sender.as_str());
        let range = SeqRange { inbox: consumer.inbox, after: 0, before: i64::MAX, sender };
        Ok(self.store.last(range, 1).await?.last().map_or(0, |last| last.seq))
    }

    async fn peer_cursor(&self, consumer: &Consumer, sender: &Aid) -> Result<i64, Error> {
        let cursor = self.store.cursor(consumer.inbox, &consumer.slot, sender.as_str()).await?;
        match cursor {
            Some(seq) => Ok(seq),
            None => Ok(self.store.bootstrap_floor(consumer.inbox, &consumer.slot).await?),
        }
    }
}

/// What every page says.
fn inbox_page(
    page: MessagePage,
    has_more: bool,
    bounds: InboxBounds,
    volatile: Option<VolatilePageFields>,
) -> V2InboxPage {
    let mut inbox_page = V2InboxPage {
        count: page.rows.len(),
        messages: page.rows,
        has_more: Some(has_more),
        latest_seq: page.through,
        server_ack_seq: bounds.server_ack_seq,
        retention_floor_seq: bounds.retention_floor_seq,
        earliest_available_seq: bounds.earliest_available_seq,
        ..V2InboxPage::default()
    };
    if let Some(volatile) = volatile {
        inbox_page.latest_volatile_cursor = volatile.latest_volatile_cursor;
        inbox_page.volatile_has_more = Some(volatile.volatile_has_more);
        inbox_page.volatile_earliest_cursor = volatile.volatile_earliest_cursor;
        inbox_page.volatile_dropped_count = Some(volatile.volatile_dropped_count);
    }
    inbox_page
}

/// A page of one sender's messages says whose they are, and who reads them.
fn of_sender(page: V2InboxPage, consumer: &Consumer, sender: Aid) -> V2InboxPage {
    V2InboxPage {
        cursor_scope: Some(CursorScope::Peer),
        sender_aid: Some(sender),
        device_id: Some(consumer.device.clone()),
        slot_id: Some(consumer.slot_id.clone()),
        ..page
    }
}
