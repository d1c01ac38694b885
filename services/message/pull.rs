//! `message.pull`: the rows after a number, as the first generation of clients reads them.

use super::consumer::{Claim, Consumer, Seq};
use super::page::{Bounds, Form, Page};
use super::rows::Fleeting;
use super::volatile::VolatilePage;
use super::{Error, Message, events};
use crate::kernel::{Answer, Caller, CallerEvent};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

const LIMIT: i64 = 100;
const MOST: i64 = 200;

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
    bounds: Bounds,
    #[serde(flatten)]
    volatile: VolatilePart,
}

/// What a page says of rows that are only in memory.
#[derive(Clone, Serialize)]
pub(super) struct VolatilePart {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_volatile_cursor: Option<String>,
    pub volatile_has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volatile_earliest_cursor: Option<String>,
    pub volatile_dropped_count: u64,
}

impl Message {
    pub(super) async fn pull(
        self: Arc<Self>,
        caller: Caller,
        params: PullParams,
    ) -> Result<Answer<Pulled>, Error> {
        let PullParams { after_seq: Seq(after), limit, after_volatile_cursor, device_id, slot_id } = params;
        let consumer = self.consumer(&caller, &Claim { device_id, slot_id }).await?;
        let limit = limit.unwrap_or(LIMIT).clamp(1, MOST) as usize;

        let slice = self.forward(&consumer, after, None, limit).await?;
        let (earliest, dropped) = (slice.ephemeral_earliest, slice.ephemeral_dropped);
        let mut page = slice.page(&consumer, Form::Plain);
        let bounds = self.bounds(&consumer).await?;
        let volatile =
            self.fleeting(&consumer, after_volatile_cursor.as_deref(), None, Form::Plain, &mut page).await?;

        let event = skipped_bell(&consumer, &page);
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

    pub(super) async fn bounds(&self, consumer: &Consumer) -> Result<Bounds, Error> {
        let ack = self.store.cursor(consumer.inbox, &consumer.slot, "").await?.unwrap_or(0);
        Ok(Bounds::new(ack, self.store.standing(consumer.inbox).await?.floor))
    }

    /// Adds the rows that are only in memory; they have cursors of their own.
    pub(super) async fn fleeting(
        &self,
        consumer: &Consumer,
        cursor: Option<&str>,
        sender: Option<&str>,
        form: Form,
        page: &mut Page,
    ) -> Result<VolatilePart, Error> {
        let VolatilePage { rows, latest_cursor, has_more, earliest_cursor, dropped_count } = self
            .with_volatile(consumer.inbox, |volatile| {
                volatile.after(consumer.inbox, cursor, sender, self.clock.now_ms(), MOST as usize)
            })
            .await??;
        for (volatile_cursor, row) in rows {
            let Some(place) = row.message.place(consumer.inbox) else { continue };
            let (created_at, expires_at) = (row.created_at, row.expires_at);
            let fleeting = Fleeting { storage: "volatile", volatile_cursor, created_at, expires_at };
            page.rows.extend(form.row(&row.message, place, consumer, Some(&fleeting)));
        }
        Ok(VolatilePart {
            latest_volatile_cursor: latest_cursor,
            volatile_has_more: has_more,
            volatile_earliest_cursor: earliest_cursor,
            volatile_dropped_count: dropped_count,
        })
    }
}

/// A client that reads V2 messages elsewhere is told to look there for what this page leaves out.
fn skipped_bell(consumer: &Consumer, page: &Page) -> Option<Box<CallerEvent>> {
    let entry = page.skipped.as_ref()?;
    let place = entry.message.place(consumer.inbox)?;
    let params = events::doorbell(&entry.message, place, &consumer.device, None)?;
    Some(Box::new(CallerEvent { method: events::V2_RECEIVED.into(), params }))
}
