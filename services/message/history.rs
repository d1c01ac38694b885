//! `message.history`: older messages, page by page towards the beginning. Reading them moves no cursor.

use super::reading::consumer::{ConsumerClaim, Seq};
use super::reading::page::RowForm;
use super::reading::scan::{PageQuery, WithQueue};
use super::{Error, MessageService};
use kernel::{Aid, Caller, PageLimit};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(50, 50);
const PAGE_OF_PEER: PageLimit = PageLimit::new(200, 200);

#[derive(Deserialize)]
pub(super) struct HistoryParams {
    #[serde(default)]
    before_seq: Option<Seq>,
    #[serde(default)]
    limit: Option<i64>,
    #[serde(default)]
    cursor_scope: Option<String>,
    #[serde(default)]
    sender_aid: Option<Aid>,
    #[serde(default)]
    snapshot_head_seq: Option<Seq>,
    #[serde(default)]
    device_id: Option<String>,
    #[serde(default)]
    slot_id: Option<String>,
}

#[derive(Clone, Serialize)]
pub(super) struct History {
    messages: Vec<Box<RawValue>>,
    count: usize,
    window_start_seq: Option<i64>,
    next_before_seq: Option<i64>,
    has_older: bool,
    retention_floor_seq: i64,
    earliest_available_seq: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor_scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender_aid: Option<Aid>,
}

impl MessageService {
    pub(super) async fn history(
        self: Arc<Self>,
        caller: Caller,
        params: HistoryParams,
    ) -> Result<History, Error> {
        let HistoryParams { before_seq, limit, cursor_scope, sender_aid, snapshot_head_seq, .. } = params;
        let claim = ConsumerClaim { device_id: params.device_id, slot_id: params.slot_id };
        let consumer = self.consumer(&caller, &claim).await?;
        let sender = super::v2::peer_scope(cursor_scope.as_deref(), sender_aid)?;
        let page = if sender.is_some() { PAGE_OF_PEER } else { PAGE };
        let limit = page.nearest(limit);

        let head = snapshot_head_seq.map_or(i64::MAX - 1, |Seq(head)| head);
        let before = before_seq.map_or(i64::MAX, |Seq(before)| before).min(head.saturating_add(1));
        let query = PageQuery { form: RowForm::V2, sender: sender.as_ref().map(Aid::as_str), limit };
        let page = self.backward(&consumer, (0, before), query, WithQueue::No).await?;
        let bounds = self.bounds(&consumer).await?;

        Ok(History {
            count: page.rows.len(),
            window_start_seq: page.first,
            next_before_seq: page.first,
            has_older: page.first.is_some() && page.more,
            messages: page.rows,
            retention_floor_seq: bounds.retention_floor_seq,
            earliest_available_seq: bounds.earliest_available_seq,
            cursor_scope: sender.is_some().then_some("peer"),
            sender_aid: sender,
        })
    }
}
