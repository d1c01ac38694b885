//! `message.peers`: the senders in an inbox, and how far each of them has been read.

use super::consumer::ConsumerClaim;
use crate::{Error, MessageService};
use kernel::{Aid, Caller, DeviceId, PageLimit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(100, 200);
/// Those with something unread come all at once, but an answer has to fit into a frame. The others come when some of these have
/// been read.
const MAX_PENDING: usize = 1000;

#[derive(Deserialize)]
pub(crate) struct PeersParams {
    #[serde(default)]
    filter: Option<String>,
    #[serde(default)]
    limit: Option<i64>,
    #[serde(default)]
    page_token: Option<String>,
    #[serde(default)]
    device_id: Option<String>,
    #[serde(default)]
    slot_id: Option<String>,
}

#[derive(Clone, Serialize)]
pub(crate) struct PeerCursors {
    cursor_scope: &'static str,
    receiver_aid: Aid,
    device_id: DeviceId,
    bootstrap_floor_seq: i64,
    catalog_ready: bool,
    catalog_revision: i64,
    peers: Vec<PeerCursor>,
    pending_count_estimate: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    has_more: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<String>,
}

#[derive(Clone, Serialize)]
pub(crate) struct PeerCursor {
    sender_aid: String,
    head_seq: i64,
    server_ack_seq: i64,
    initial_after_seq: i64,
    initialization_source: &'static str,
    volatile_has_more: bool,
    retention_floor_seq: i64,
    earliest_available_seq: Option<i64>,
}

impl MessageService {
    pub(crate) async fn peers(
        self: Arc<Self>,
        caller: Caller,
        params: PeersParams,
    ) -> Result<PeerCursors, Error> {
        let claim = ConsumerClaim { device_id: params.device_id, slot_id: params.slot_id };
        let consumer = self.consumer(&caller, &claim).await?;
        let all = match params.filter.as_deref() {
            None | Some("pending") if params.limit.is_some() || params.page_token.is_some() => {
                return Err(Error::Param(
                    "params.limit: must be absent for the pending ones, which come all at once".to_owned(),
                ));
            }
            None | Some("pending") => false,
            Some("all") => true,
            Some(other) => {
                return Err(Error::Param(format!("params.filter: must be pending or all, not {other:?}")));
            }
        };

        let bootstrap_floor = self.store.bootstrap_floor(consumer.inbox, &consumer.slot).await?;
        let inbox_state = self.store.inbox_state(consumer.inbox).await?;
        let cursors = self.store.cursors(consumer.inbox, &consumer.slot).await?;
        let mut heads = self.store.senders(consumer.inbox).await?;
        let now = self.clock.now_ms();
        let volatile =
            self.with_volatile(consumer.inbox, |volatile| volatile.senders(consumer.inbox, now)).await?;
        for sender in &volatile {
            heads.entry(sender.clone()).or_insert(0);
        }
        let peer = |(sender_aid, head_seq): (String, i64)| {
            let cursor = cursors.get(&sender_aid).copied();
            let initial_after_seq = cursor.unwrap_or(bootstrap_floor);
            PeerCursor {
                volatile_has_more: volatile.contains(&sender_aid),
                head_seq: head_seq.max(initial_after_seq),
                server_ack_seq: initial_after_seq.max(inbox_state.floor),
                initial_after_seq,
                initialization_source: if cursor.is_some() { "peer" } else { "bootstrap" },
                retention_floor_seq: inbox_state.floor,
                earliest_available_seq: (inbox_state.floor > 0).then_some(inbox_state.floor + 1),
                sender_aid,
            }
        };
        let pending = |peer: &PeerCursor| peer.head_seq > peer.server_ack_seq || peer.volatile_has_more;
        let peers: BTreeMap<String, PeerCursor> =
            heads.into_iter().map(peer).map(|peer| (peer.sender_aid.clone(), peer)).collect();
        let pending_count_estimate = unread_at_most(peers.values());

        let (peers, next) = if all {
            page(peers, params.limit, params.page_token.as_deref())
        } else {
            (peers.into_values().filter(pending).take(MAX_PENDING).collect(), None)
        };
        Ok(PeerCursors {
            cursor_scope: "peer",
            receiver_aid: consumer.aid,
            device_id: consumer.device,
            bootstrap_floor_seq: bootstrap_floor,
            catalog_ready: true,
            catalog_revision: inbox_state.head,
            peers,
            pending_count_estimate,
            has_more: all.then_some(next.is_some()),
            next_page_token: next,
        })
    }
}

/// How many stored messages are unread, at most: the seqs from the first that may be unread up to the last. It is not counted,
/// as clients are told ("not an exact number"): an inbox may have a great many.
fn unread_at_most<'a>(peers: impl Iterator<Item = &'a PeerCursor>) -> i64 {
    let unread = peers.filter(|peer| peer.head_seq > peer.server_ack_seq);
    let (first, last) = unread.fold((i64::MAX, 0), |(first, last): (i64, i64), peer| {
        (first.min(peer.server_ack_seq), last.max(peer.head_seq))
    });
    (last - first).max(0)
}

/// The token of the next page is the last sender of this one.
fn page(
    peers: BTreeMap<String, PeerCursor>,
    limit: Option<i64>,
    token: Option<&str>,
) -> (Vec<PeerCursor>, Option<String>) {
    let limit = PAGE.nearest(limit);
    let after = |name: &String| token.is_none_or(|token| name.as_str() > token);
    let mut rest = peers.into_iter().filter(|(name, _)| after(name)).map(|(_, peer)| peer);
    let page: Vec<PeerCursor> = rest.by_ref().take(limit).collect();
    let next = rest.next().and_then(|_| page.last()).map(|peer| peer.sender_aid.clone());
    (page, next)
}
