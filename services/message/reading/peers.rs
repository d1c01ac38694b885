//! `message.peers`: the senders in an inbox, and how far each of them has been read.

use super::consumer::ConsumerClaim;
use crate::{Error, MessageService};
use kernel::{Caller, PageLimit};
use proto_schemas::requests::message::{CursorScope, CursorSource, ListedSender, Peers, SenderPage};
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: PageLimit = PageLimit::new(100, 200);
/// Those with something unread come all at once, but an answer has to fit into a frame. The others come when some of these have
/// been read.
const MAX_PENDING: usize = 1000;

impl MessageService {
    pub(crate) async fn peers(self: Arc<Self>, caller: Caller, params: Peers) -> Result<SenderPage, Error> {
        let claim =
            ConsumerClaim { device_id: params.device_id.as_deref(), slot_id: params.slot_id.as_deref() };
        let consumer = self.consumer(&caller, claim).await?;
        let all = match params.filter.as_deref() {
            None | Some("pending") if params.limit.is_some() || params.page_token.is_some() => {
                return Err(Error::Param(
                    "limit and page_token must be absent unless filter is all".to_owned(),
                ));
            }
            None | Some("pending") => false,
            Some("all") => true,
            Some(other) => {
                return Err(Error::Param(format!("filter must be pending or all, not {other:?}")));
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
            ListedSender {
                volatile_has_more: volatile.contains(&sender_aid),
                head_seq: head_seq.max(initial_after_seq),
                server_ack_seq: initial_after_seq.max(inbox_state.floor),
                initial_after_seq,
                initialization_source: match cursor {
                    Some(_) => CursorSource::Peer,
                    None => CursorSource::Bootstrap,
                },
                next_pending_seq: None,
                retention_floor_seq: inbox_state.floor,
                earliest_available_seq: (inbox_state.floor > 0).then_some(inbox_state.floor + 1),
                sender_aid,
            }
        };
        let pending = |peer: &ListedSender| peer.head_seq > peer.server_ack_seq || peer.volatile_has_more;
        let peers: BTreeMap<String, ListedSender> =
            heads.into_iter().map(peer).map(|peer| (peer.sender_aid.clone(), peer)).collect();
        let pending_count_estimate = unread_at_most(peers.values());

        let (peers, next) = if all {
            page(peers, params.limit, params.page_token.as_deref())
        } else {
            (peers.into_values().filter(pending).take(MAX_PENDING).collect(), None)
        };
        Ok(SenderPage {
            cursor_scope: CursorScope::Peer,
            receiver_aid: consumer.aid,
            device_id: consumer.device,
            slot_id: None,
            bootstrap_floor_seq: bootstrap_floor,
            catalog_ready: true,
            catalog_revision: inbox_state.head,
            peers,
            pending_count_estimate: Some(pending_count_estimate),
            has_more: all.then_some(next.is_some()),
            next_page_token: next,
        })
    }
}

/// How many stored messages are unread, at most: the seqs from the first that may be unread up to the last. It is not counted,
/// as clients are told ("not an exact number"): an inbox may have a great many.
fn unread_at_most<'a>(peers: impl Iterator<Item = &'a ListedSender>) -> i64 {
    let unread = peers.filter(|peer| peer.head_seq > peer.server_ack_seq);
    let (first, last) = unread.fold((i64::MAX, 0), |(first, last): (i64, i64), peer| {
        (first.min(peer.server_ack_seq), last.max(peer.head_seq))
    });
    (last - first).max(0)
}

/// The token of the next page is the last sender of this one.
fn page(
    peers: BTreeMap<String, ListedSender>,
    limit: Option<i64>,
    token: Option<&str>,
) -> (Vec<ListedSender>, Option<String>) {
    let limit = PAGE.nearest(limit);
    let after = |name: &String| token.is_none_or(|token| name.as_str() > token);
    let mut rest = peers.into_iter().filter(|(name, _)| after(name)).map(|(_, peer)| peer);
    let page: Vec<ListedSender> = rest.by_ref().take(limit).collect();
    let next = rest.next().and_then(|_| page.last()).map(|peer| peer.sender_aid.clone());
    (page, next)
}
