//! Delivers what waits in the outbox: a page is a batch of calls to its domain.

use super::outbox::OutboxData;
use super::{is_unreachable, link_lost};
use crate::MessageService;
use futures_util::future::try_join_all;
use kernel::{
    Aid, BatchError, Caller, OutboxPage, OutboxRow, OutboxSender, PageOutcome, RowEnd, RpcError, SendFailure,
    codes, forwarded_result,
};
use proto_schemas::requests::gateway::{ForwardFederation, ForwardFederationBatch};
use serde_json::value::RawValue;
use std::collections::HashSet;

impl OutboxSender for MessageService {
    async fn send(&self, page: OutboxPage) -> sqlx::Result<PageOutcome> {
        let OutboxPage { destination: issuer, rows, .. } = page;
        let now = self.clock.now_ms();
        let items: Vec<Option<ForwardFederation>> = rows.iter().map(|row| forward(row, now)).collect();
        if let Err(error) = self.remember_page(&issuer, &items, now).await {
            return Ok(PageOutcome::failed(error.to_string()));
        }
        let outcomes = self.forward_page(&issuer, items).await;
        Ok(settle(&issuer, &rows, outcomes))
    }
}

impl MessageService {
    /// From now on a recall finds the domain for each sender of the page. Stored before the page is sent: what has arrived can
    /// be recalled.
    async fn remember_page(
        &self,
        issuer: &str,
        items: &[Option<ForwardFederation>],
        now: i64,
    ) -> Result<(), BatchError> {
        let senders: HashSet<&Aid> =
            items.iter().flatten().filter_map(|item| item.caller_aid.as_ref()).collect();
        let stored = senders.into_iter().filter_map(|sender| self.recent_peers.remember(sender, issuer, now));
        try_join_all(stored).await.map(drop)
    }

    /// An outcome for each of them, in order.
    async fn forward_page(
        &self,
        issuer: &str,
        items: Vec<Option<ForwardFederation>>,
    ) -> Vec<Result<Box<RawValue>, RpcError>> {
        let readable: Vec<bool> = items.iter().map(Option::is_some).collect();
        let items = items.into_iter().flatten().collect();
        let target_issuer = Some(issuer.to_owned());
        let batch = ForwardFederationBatch { target_issuer, target_aid: None, items, timeout_ms: None };
        let own = Caller::service("message");
        let mut results = match self.mesh.forward_batch("message", &own, &batch).await {
            Ok(answer) => answer.results.into_iter().map(forwarded_result).collect::<Vec<_>>(),
            Err(error) => batch.items.iter().map(|_| Err(repeated(&error))).collect(),
        }
        .into_iter();
        let next = |readable: bool| match readable {
            true => results.next().unwrap_or_else(|| Err(RpcError::plain(codes::FEDERATION_TIMEOUT))),
            false => Err(RpcError::plain(codes::INVALID_PARAMS)),
        };
        readable.into_iter().map(next).collect()
    }
}

/// `None` for a row that cannot be read any more.
fn forward(row: &OutboxRow, now: i64) -> Option<ForwardFederation> {
    let data: OutboxData = serde_json::from_str(&row.data).ok()?;
    let params = match data.ttl_until {
        None => data.params,
        // "A positive message TTL crosses as the remaining TTL" (federation, §1.2).
        Some(until) => {
            let (left, rest) = ((until - now).max(1), data.params.get().strip_prefix('{')?);
            let seconds = if left % 1000 == 0 {
                (left / 1000).to_string()
            } else {
                format!("{}.{:03}", left / 1000, left % 1000)
            };
            RawValue::from_string(format!("{{\"ttl\":{seconds},{rest}")).ok()?
        }
    };
    Some(ForwardFederation {
        target_issuer: None,
        target_aid: None,
        namespace: "message".to_owned(),
        method: "send".to_owned(),
        params,
        caller_aid: Some(data.caller_aid),
        as_service: None,
        device_id: Some(data.device_id),
        slot_id: Some(data.slot_id),
        relay_id: None,
        timeout_ms: None,
        trace: None,
    })
}

/// Which messages need not be sent again, and why others do.
fn settle(issuer: &str, rows: &[OutboxRow], outcomes: Vec<Result<Box<RawValue>, RpcError>>) -> PageOutcome {
    let (mut settled, mut failed, mut may_have_arrived) = (Vec::with_capacity(rows.len()), None, false);
    for (row, outcome) in rows.iter().zip(outcomes) {
        match outcome {
            Ok(_) => settled.push(row.settled(RowEnd::Delivered)),
            Err(error) if may_succeed_later(&error) => {
                may_have_arrived |= !is_unreachable(&error) || link_lost(&error);
                failed.get_or_insert(error.to_string());
            }
            Err(error) => {
                tracing::warn!(
                    peer.issuer = issuer,
                    code = error.code(),
                    "{issuer} refuses a message that waited for it: {error}"
                );
                settled.push(row.settled(RowEnd::GivenUp(error.to_string())));
            }
        }
    }
    let failure = failed.map(|error| SendFailure { error, may_have_arrived, retry_in: None });
    PageOutcome { settled, failure, ..PageOutcome::default() }
}

/// Whether a retry may succeed. An internal error of the peer may be repaired while the message waits.
pub(super) fn may_succeed_later(error: &RpcError) -> bool {
    if error.code() == codes::INTERNAL.code {
        return true;
    }
    let retryable = error.data("retryable").and_then(serde_json::Value::as_bool);
    retryable.unwrap_or(matches!(error.code(), -32010 | -32011 | -32029 | 5000..=5999))
}

/// The error of a batch is the error of each message in it.
fn repeated(error: &RpcError) -> RpcError {
    let code = if is_unreachable(error) { codes::FEDERATION_UNREACHABLE } else { codes::FEDERATION_TIMEOUT };
    RpcError::new(code, error).with("retryable", may_succeed_later(error))
}
