//! `message.v2.pull`: rows of every kind after a seq, of all senders or of one; or the newest ones.

use super::peer_scope;
use crate::reading::consumer::{Consumer, ConsumerClaim, Seq};
use crate::reading::page::{InboxBounds, MessagePage, RowForm};
use crate::reading::scan::{PageQuery, WithQueue};
use crate::reading::volatile::VolatilePageFields;
use crate::store::lookup::SeqRange;
use crate::{Error, MessageService};
use kernel::{Aid, Caller, DeviceId, PageLimit, SlotId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(50, 50);
const PAGE_OF_PEER: PageLimit = PageLimit::new(200, 200);

#[derive(Deserialize)]
pub(crate) struct V2PullParams {
    #[serde(default)]
    after_seq: Seq,
    #[serde(default)]
    limit: Option<i64>,
    /// Always the case: a page begins where it was asked to, also below the cursor.
    #[serde(default)]
    force: bool,
    #[serde(default)]
    ack_up_to_seq: Option<Seq>,
    #[serde(default)]
    window_mode: Option<String>,
    #[serde(default)]
    cursor_scope: Option<String>,
    #[serde(default)]
    sender_aid: Option<Aid>,
    #[serde(default)]
    after_volatile_cursor: Option<String>,
    #[serde(default)]
    device_id: Option<String>,
    #[serde(default)]
    slot_id: Option<String>,
}

#[derive(Clone, Serialize)]
pub(crate) struct V2Pulled {
    messages: Vec<Box<RawValue>>,
    count: usize,
    has_more: bool,
    latest_seq: i64,
    #[serde(flatten)]
    bounds: InboxBounds,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    volatile: Option<VolatilePageFields>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    peer: Option<PeerFields>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    window: Option<WindowFields>,
}

#[derive(Clone, Serialize)]
struct PeerFields {
    cursor_scope: &'static str,
    sender_aid: Aid,
    device_id: DeviceId,
    slot_id: SlotId,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    scan: Option<ScanFields>,
}

/// Which of a sender's messages a page covers.
#[derive(Clone, Serialize)]
struct ScanFields {
    scan_after_seq: i64,
    covered_through_seq: i64,
    next_after_seq: i64,
    head_seq: i64,
    persistent_has_more: bool,
}

#[derive(Clone, Serialize)]
struct WindowFields {
    window_mode: &'static str,
    window_start_seq: i64,
    head_seq: i64,
    covered_through_seq: i64,
}

impl MessageService {
    pub(in super::super) async fn v2_pull(
        self: Arc<Self>,
        caller: Caller,
        params: V2PullParams,
    ) -> Result<V2Pulled, Error> {
        let claim = ConsumerClaim { device_id: params.device_id, slot_id: params.slot_id };
        let consumer = self.consumer(&caller, &claim).await?;
        let sender = peer_scope(params.cursor_scope.as_deref(), params.sender_aid)?;
        let page = if sender.is_some() { PAGE_OF_PEER } else { PAGE };
        let limit = page.nearest(params.limit);
        let Seq(after) = params.after_seq;
        match params.window_mode.as_deref() {
            None | Some("") => {}
            Some("tail") if params.force || params.ack_up_to_seq.is_some() => {
                let sentence =
                    "params.window_mode: a tail must be read without force and without ack_up_to_seq";
                return Err(Error::Param(sentence.to_owned()));
            }
            Some("tail") => return self.newest(&consumer, sender, after, limit).await,
            Some(other) => {
                return Err(Error::Param(format!(
                    "params.window_mode: must be tail or absent, not {other:?}"
                )));
            }
        }
        if let Some(Seq(seq)) = params.ack_up_to_seq {
            self.advance(&consumer, sender.as_ref(), seq).await?;
        }
        match sender {
            None => self.of_all(&consumer, after, params.after_volatile_cursor.as_deref(), limit).await,
            Some(sender) => {
                self.of_peer(&consumer, sender, after, params.after_volatile_cursor.as_deref(), limit).await
            }
        }
    }

    async fn of_all(
        &self,
        consumer: &Consumer,
        after: i64,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<V2Pulled, Error> {
        let query = PageQuery { form: RowForm::V2, sender: None, limit };
        let mut page = self.forward(consumer, after, query).await?;
        let bounds = self.bounds(consumer).await?;
        let volatile = self.add_volatile(consumer, cursor, None, RowForm::V2, &mut page).await?;
        // Clients that do not know messages with a ttl are told nothing about them.
        let any = volatile.latest_volatile_cursor.is_some() || volatile.volatile_has_more;
        let volatile = (cursor.is_some() || any).then_some(volatile);
        let more = page.more;
        Ok(V2Pulled::new(page, more, bounds, volatile))
    }

    async fn of_peer(
        &self,
        consumer: &Consumer,
        sender: Aid,
        after: i64,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<V2Pulled, Error> {
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
        let mut pulled = V2Pulled::new(page, more, InboxBounds::new(ack, floor), Some(volatile));
        pulled.peer = Some(PeerFields::new(
            consumer,
            sender,
            Some(ScanFields {
                scan_after_seq,
                covered_through_seq: covered,
                next_after_seq: covered,
                head_seq,
                persistent_has_more,
            }),
        ));
        Ok(pulled)
    }

    /// The newest rows, for a client that is far behind and shows the end first.
    async fn newest(
        &self,
        consumer: &Consumer,
        sender: Option<Aid>,
        after: i64,
        limit: usize,
    ) -> Result<V2Pulled, Error> {
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
        let mut pulled = V2Pulled::new(page, false, InboxBounds::new(ack, floor), None);
        pulled.window = Some(WindowFields {
            window_mode: "tail",
            window_start_seq,
            head_seq: head,
            covered_through_seq: head,
        });
        pulled.peer = sender.map(|sender| PeerFields::new(consumer, sender, None));
        Ok(pulled)
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

impl V2Pulled {
    fn new(
        page: MessagePage,
        has_more: bool,
        bounds: InboxBounds,
        volatile: Option<VolatilePageFields>,
    ) -> V2Pulled {
        V2Pulled {
            count: page.rows.len(),
            messages: page.rows,
            has_more,
            latest_seq: page.through,
            bounds,
            volatile,
            peer: None,
            window: None,
        }
    }
}

impl PeerFields {
    fn new(consumer: &Consumer, sender_aid: Aid, scan: Option<ScanFields>) -> PeerFields {
        PeerFields {
            cursor_scope: "peer",
            sender_aid,
            device_id: consumer.device.clone(),
            slot_id: consumer.slot_id.clone(),
            scan,
        }
    }
}
