//! `message.pull`: the rows after a seq, as the first generation of clients reads them.

use super::reading::consumer::{Consumer, ConsumerClaim};
use super::reading::page::{InboxBounds, MessagePage, RowForm};
use super::reading::reminders::{RemindedConnection, Reminder};
use super::reading::scan::PageQuery;
use super::{Error, MessageService};
use kernel::{Answer, Caller, CallerEvent, CallingAgent, PageLimit};
use proto_schemas::requests::message::{InboxPage, Pull};
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(100, 200);

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

        // Over HTTP there is no connection to remind.
        let event = match caller.connected_agent() {
            Ok(session) => self.skipped_event(session, &consumer, &page).await?,
            Err(_) => None,
        };
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

    /// A client that reads V2 messages by `message.v2.pull` is reminded of those that this page leaves out.
    async fn skipped_event(
        self: &Arc<Self>,
        session: &CallingAgent,
        consumer: &Consumer,
        page: &MessagePage,
    ) -> Result<Option<Box<CallerEvent>>, Error> {
        let Some(skipped) = &page.skipped else { return Ok(None) };
        let reminded = RemindedConnection::of(session, consumer);
        let Some(Reminder { seq, event }) = self.reminder(&reminded, skipped.seq - 1).await? else {
            return Ok(None);
        };
        self.look_again(reminded, seq);
        Ok(Some(Box::new(event)))
    }

    pub(super) async fn bounds(&self, consumer: &Consumer) -> Result<InboxBounds, Error> {
        let ack = self.store.cursor(consumer.inbox, &consumer.slot, "").await?.unwrap_or(0);
        Ok(InboxBounds::new(ack, self.store.inbox_state(consumer.inbox).await?.floor))
    }
}
