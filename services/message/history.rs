//! `message.history`: older messages, page by page towards the beginning. Reading them moves no cursor.

use super::reading::consumer::ConsumerClaim;
use super::reading::page::RowForm;
use super::reading::scan::{PageQuery, WithQueue};
use super::{Error, MessageService};
use kernel::{Aid, Caller, PageLimit};
use proto_schemas::requests::message::{CursorScope, History, HistoryPage, Seq};
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(50, 50);
const PAGE_OF_PEER: PageLimit = PageLimit::new(200, 200);

impl MessageService {
    pub(super) async fn history(
        self: Arc<Self>,
        caller: Caller,
        history: History,
    ) -> Result<HistoryPage, Error> {
        let claim =
            ConsumerClaim { device_id: history.device_id.as_deref(), slot_id: history.slot_id.as_deref() };
        let consumer = self.consumer(&caller, claim).await?;
        let sender = super::v2::peer_scope(history.cursor_scope.as_deref(), history.sender_aid)?;
        let page = if sender.is_some() { PAGE_OF_PEER } else { PAGE };
        let limit = page.nearest(history.limit);

        let head = history.snapshot_head_seq.map_or(i64::MAX - 1, Seq::get);
        let before = history.before_seq.map_or(i64::MAX, Seq::get).min(head.saturating_add(1));
        let query = PageQuery { form: RowForm::V2, sender: sender.as_ref().map(Aid::as_str), limit };
        let page = self.backward(&consumer, (0, before), query, WithQueue::No).await?;
        let bounds = self.bounds(&consumer).await?;

        Ok(HistoryPage {
            count: page.rows.len(),
            window_start_seq: page.first,
            next_before_seq: page.first,
            has_older: page.first.is_some() && page.more,
            messages: page.rows,
            retention_floor_seq: bounds.retention_floor_seq,
            earliest_available_seq: bounds.earliest_available_seq,
            cursor_scope: sender.is_some().then_some(CursorScope::Peer),
            sender_aid: sender,
        })
    }
}
