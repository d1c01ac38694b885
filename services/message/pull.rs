//! `message.pull`: the rows after a seq, as the first generation of clients reads them.

use super::delivery::events;
use super::reading::consumer::{Consumer, ConsumerClaim, Seq};
use super::reading::page::{InboxBounds, MessagePage, RowForm};
use super::reading::volatile::VolatilePageFields;
use super::{Error, Message};
use crate::kernel::{Answer, Caller, CallerEvent};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

const DEFAULT_LIMIT: i64 = 100;
const MAX_LIMIT: i64 = 200;

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

impl Message {
    pub(super) async fn pull(
        self: Arc<Self>,
        caller: Caller,
        params: PullParams,
    ) -> Result<Answer<Pulled>, Error> {
        let PullParams { after_seq: Seq(after), limit, after_volatile_cursor, device_id, slot_id } = params;
        let consumer = self.consumer(&caller, &ConsumerClaim { device_id, slot_id }).await?;
        let limit = limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT) as usize;

        let slice = self.forward(&consumer, after, None, limit).await?;
        let (earliest, dropped) = (slice.ephemeral_earliest, slice.ephemeral_dropped);
        let mut page = slice.page(&consumer, RowForm::Plain);
        let bounds = self.bounds(&consumer).await?;
        let volatile = self
            .add_volatile(&consumer, after_volatile_cursor.as_deref(), None, RowForm::Plain, &mut page)
            .await?;

        let event = skipped_notification(&consumer, &page);
        let result = Pulled {
            count: page.rows.len(),
            has_more: page.more,
            latest_seq: page.through,
            messages: page.rows,
            ephemeral_earliest_available_seq: earliest,
            ephemeral_dropped_count: dropped,
            bounds,
            volatile,
        };
        Ok(Answer { result, event })
    }

    pub(super) async fn bounds(&self, consumer: &Consumer) -> Result<InboxBounds, Error> {
        let ack = self.store.cursor(consumer.inbox, &consumer.slot, "").await?.unwrap_or(0);
        Ok(InboxBounds::new(ack, self.store.inbox_state(consumer.inbox).await?.floor))
    }
}

/// A client that reads V2 messages by `message.v2.pull` is notified of those that this page leaves out.
fn skipped_notification(consumer: &Consumer, page: &MessagePage) -> Option<Box<CallerEvent>> {
    let skipped = page.skipped.as_ref()?;
    let entry = skipped.message.entry(consumer.inbox)?;
    let params = events::v2_notification(&skipped.message, entry, &consumer.device, None)?;
    Some(Box::new(CallerEvent { method: events::V2_RECEIVED.into(), params }))
}
