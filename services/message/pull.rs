//! `message.pull`: the rows after a seq, as the first generation of clients reads them.

use super::delivery::events;
use super::reading::consumer::{Consumer, ConsumerClaim};
use super::reading::page::{InboxBounds, MessagePage, RowForm};
use super::reading::scan::PageQuery;
use super::store::lookup::SeqRange;
use super::store::stored_message::MessageKind;
use super::{Error, MessageService};
use kernel::{Answer, Caller, CallerEvent, PageLimit};
use proto_schemas::requests::message::{InboxPage, Pull};
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(100, 200);
/// How many of the newest messages are looked through for one that this method cannot show.
const LOOK_BACK: usize = 8;

impl MessageService {
    pub(super) async fn pull(
        self: Arc<Self>,
        caller: Caller,
        pull: Pull,
    ) -> Result<Answer<InboxPage>, Error> {
        let claim = ConsumerClaim { device_id: pull.device_id.as_deref(), slot_id: pull.slot_id.as_deref() };
        let consumer = self.consumer(&caller, claim).await?;
        let (after, limit) = (pull.after_seq.unwrap_or_default().get(), PAGE.nearest(pull.limit));

        let query = PageQuery { form: RowForm::Plain, sender: None, limit };
        let mut page = self.forward(&consumer, after, query).await?;
        let bounds = self.bounds(&consumer).await?;
        let cursor = pull.after_volatile_cursor.as_deref();
        let volatile = self.add_volatile(&consumer, cursor, None, RowForm::Plain, &mut page).await?;

        let event = self.skipped_notification(&consumer, &page).await?;
        let result = InboxPage {
            count: page.rows.len(),
            has_more: page.more,
            latest_seq: page.through,
            messages: page.rows,
            ephemeral_earliest_available_seq: page.ephemeral_earliest,
            ephemeral_dropped_count: page.ephemeral_dropped,
            server_ack_seq: bounds.server_ack_seq,
            retention_floor_seq: bounds.retention_floor_seq,
            earliest_available_seq: bounds.earliest_available_seq,
            latest_volatile_cursor: volatile.latest_volatile_cursor,
            volatile_has_more: Some(volatile.volatile_has_more),
            volatile_earliest_cursor: volatile.volatile_earliest_cursor,
            volatile_dropped_count: Some(volatile.volatile_dropped_count),
        };
        Ok(Answer { result, event })
    }

    /// A client that reads V2 messages by `message.v2.pull` is notified of those that this page leaves out: with the newest
    /// one of its inbox, because it may have been notified of that already, and a notification never goes back.
    async fn skipped_notification(
        &self,
        consumer: &Consumer,
        page: &MessagePage,
    ) -> Result<Option<Box<CallerEvent>>, Error> {
        let Some(skipped) = page.skipped.clone() else { return Ok(None) };
        let range = SeqRange { inbox: consumer.inbox, after: skipped.seq, before: i64::MAX, sender: None };
        let mut later = self.store.last(range, LOOK_BACK).await?;
        let newest = match later.iter().rposition(|one| one.message.kind == MessageKind::V2) {
            Some(at) => later.swap_remove(at),
            // There may be one before these: whatever is newest is no smaller than that.
            None if later.len() == LOOK_BACK => later.swap_remove(LOOK_BACK - 1),
            None => skipped,
        };
        let Some(entry) = newest.message.entry(consumer.inbox) else { return Ok(None) };
        let params = events::v2_notification(&newest.message, entry, &consumer.device, None);
        Ok(params.map(|params| Box::new(CallerEvent { method: events::V2_RECEIVED.into(), params })))
    }

    pub(super) async fn bounds(&self, consumer: &Consumer) -> Result<InboxBounds, Error> {
        let ack = self.store.cursor(consumer.inbox, &consumer.slot, "").await?.unwrap_or(0);
        Ok(InboxBounds::new(ack, self.store.inbox_state(consumer.inbox).await?.floor))
    }
}
