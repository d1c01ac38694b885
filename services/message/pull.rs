//! `message.pull`: the rows after a seq, as the first generation of clients reads them.

use super::delivery::events;
use super::reading::consumer::{Consumer, ConsumerClaim, Seq};
use super::reading::page::{InboxBounds, MessagePage, RowForm};
use super::reading::scan::PageQuery;
use super::reading::volatile::VolatilePageFields;
use super::store::lookup::SeqRange;
use super::store::stored_message::MessageKind;
use super::{Error, MessageService};
use kernel::{Answer, Caller, CallerEvent, PageLimit};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(100, 200);
/// How many of the newest messages are looked through for one that this method cannot show.
const LOOK_BACK: usize = 8;

#[derive(Deserialize)]
pub(super) struct PullParams {
    #[serde(default)]
    after_seq: Seq,
    #[serde(default)]
    limit: Option<i64>,
    #[serde(default)]
    after_volatile_cursor: Option<String>,
    #[serde(default)]
    device_id: Option<String>,
    #[serde(default)]
    slot_id: Option<String>,
}

#[derive(Clone, Serialize)]
pub(super) struct Pulled {
    messages: Vec<Box<RawValue>>,
    count: usize,
    has_more: bool,
    latest_seq: i64,
    ephemeral_earliest_available_seq: Option<i64>,
    ephemeral_dropped_count: u64,
    #[serde(flatten)]
    bounds: InboxBounds,
    #[serde(flatten)]
    volatile: VolatilePageFields,
}

impl MessageService {
    pub(super) async fn pull(
        self: Arc<Self>,
        caller: Caller,
        params: PullParams,
    ) -> Result<Answer<Pulled>, Error> {
        let PullParams { after_seq: Seq(after), limit, after_volatile_cursor, device_id, slot_id } = params;
        let consumer = self.consumer(&caller, &ConsumerClaim { device_id, slot_id }).await?;
        let limit = PAGE.nearest(limit);

        let query = PageQuery { form: RowForm::Plain, sender: None, limit };
        let mut page = self.forward(&consumer, after, query).await?;
        let bounds = self.bounds(&consumer).await?;
        let volatile = self
            .add_volatile(&consumer, after_volatile_cursor.as_deref(), None, RowForm::Plain, &mut page)
            .await?;

        let event = self.skipped_notification(&consumer, &page).await?;
        let result = Pulled {
            count: page.rows.len(),
            has_more: page.more,
            latest_seq: page.through,
            messages: page.rows,
            ephemeral_earliest_available_seq: page.ephemeral_earliest,
            ephemeral_dropped_count: page.ephemeral_dropped,
            bounds,
            volatile,
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
