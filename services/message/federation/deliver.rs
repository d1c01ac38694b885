//! Delivers what waits in the outbox: page by page, in order, by one process at a time.

use super::lease::{DeliveryFailure, Settled};
use super::rows::{Lease, OutboxData, OutboxRow};
use super::{is_unreachable, link_lost};
use crate::MessageService;
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use kernel::{
    Aid, BackoffSchedule, BatchError, Caller, Forward, ForwardBatch, ForwardOutcome, RpcError, await_polling,
    codes,
};
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::time::Duration;

/// How often it looks for work when nothing wakes it.
const TICK: Duration = Duration::from_secs(1);
/// How many domains are delivered to at once.
const MOST_PEERS: usize = 16;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How the delivery of a page ended.
enum PageOutcome {
    /// There may be more.
    Delivered,
    /// Nothing waits.
    Empty,
    /// Some were not delivered and stay.
    Failed { error: String, may_have_arrived: bool },
    /// Another process has the lease by now.
    LeaseLost,
}

impl MessageService {
    /// Runs until the server stops.
    pub(in super::super) async fn deliver(&self) {
        let (mut deliveries, mut busy) = (FuturesUnordered::new(), HashSet::new());
        loop {
            let (due, delivered) = await_polling(self.due(&busy), &mut deliveries).await;
            let again = !delivered.is_empty();
            delivered.iter().for_each(|issuer| {
                busy.remove(issuer);
            });
            for issuer in due {
                if busy.len() < MOST_PEERS && busy.insert(issuer.clone()) {
                    deliveries.push(async move {
                        self.deliver_to(&issuer).await;
                        issuer
                    });
                }
            }
            if again {
                continue; // What can be reached again was left out if it was busy.
            }
            tokio::select! {
                Some(issuer) = deliveries.next(), if !deliveries.is_empty() => { busy.remove(&issuer); }
                () = self.outbox.wake.notify.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    pub(in super::super) async fn stop_delivery(&self) {
        if let Err(error) = self.outbox.release_all().await {
            tracing::debug!("other processes wait until the leases of this one run out: {error}");
        }
    }

    /// The domains that are to be delivered to now, among them those that can be reached again.
    async fn due(&self, busy: &HashSet<String>) -> Vec<String> {
        let reachable: Vec<String> = {
            let mut reachable = self.outbox.wake.reachable.lock();
            // One that is being tried right now may be about to fail: it is tried again after that.
            let free: Vec<String> = reachable.iter().filter(|peer| !busy.contains(*peer)).cloned().collect();
            free.iter().for_each(|issuer| {
                reachable.remove(issuer);
            });
            free
        };
        let due = async {
            for issuer in &reachable {
                self.outbox.retry_now(issuer).await?;
            }
            self.outbox.due(self.clock.now_ms()).await
        };
        due.await.unwrap_or_else(|error| {
            tracing::warn!("the outbox for other domains cannot be read, will try again: {error}");
            Vec::new()
        })
    }

    /// Delivers until nothing waits or a page fails.
    pub(in super::super) async fn deliver_to(&self, issuer: &str) {
        if let Err(error) = self.try_deliver_to(issuer).await {
            // The lease runs out by itself.
            tracing::warn!(peer.issuer = issuer, "delivery to {issuer} stops: {error}");
        }
    }

    async fn try_deliver_to(&self, issuer: &str) -> sqlx::Result<()> {
        let Some(lease) = self.outbox.lease(issuer, self.clock.now_ms()).await? else { return Ok(()) };
        loop {
            match self.deliver_page(&lease).await? {
                PageOutcome::Delivered => {}
                PageOutcome::LeaseLost => return Ok(()),
                PageOutcome::Empty => return self.outbox.release(&lease, None).await,
                PageOutcome::Failed { error, may_have_arrived } => {
                    let wait = self.ids.jitter(wait_after(lease.attempts));
                    let wait_ms = i64::try_from(wait.as_millis()).unwrap_or_default();
                    let now = self.clock.now_ms();
                    let next_try = now + wait_ms;
                    tracing::debug!(
                        peer.issuer = issuer,
                        retry_in_ms = wait_ms,
                        "what waits for {issuer} cannot be delivered: {error}"
                    );
                    let may_have_arrived = may_have_arrived.then_some(now);
                    let failure = DeliveryFailure { error: &error, next_try, may_have_arrived };
                    return self.outbox.release(&lease, Some(failure)).await;
                }
            }
        }
    }

    async fn deliver_page(&self, lease: &Lease) -> sqlx::Result<PageOutcome> {
        let now = self.clock.now_ms();
        if !self.outbox.expire(lease, now).await? {
            return Ok(PageOutcome::LeaseLost);
        }
        let rows = self.outbox.page(lease).await?;
        let Some(last) = rows.last() else { return Ok(PageOutcome::Empty) };
        if !self.outbox.mark_sending(lease, last.nth, now).await? {
            return Ok(PageOutcome::LeaseLost);
        }

        let items: Vec<Option<Forward>> = rows.iter().map(|row| forward(row, now)).collect();
        if let Err(error) = self.remember_page(lease, &items, now).await {
            return Ok(PageOutcome::Failed { error: error.to_string(), may_have_arrived: false });
        }
        let outcomes = self.forward_page(lease, items).await;

        let (settled, failed) = settle(lease, rows, outcomes);
        if !self.outbox.settle(lease, &settled, self.clock.now_ms()).await? {
            return Ok(PageOutcome::LeaseLost);
        }
        Ok(failed.unwrap_or(PageOutcome::Delivered))
    }

    /// From now on a recall finds the domain for each sender of the page. Stored before the page is sent: what has arrived can
    /// be recalled.
    async fn remember_page(
        &self,
        lease: &Lease,
        items: &[Option<Forward>],
        now: i64,
    ) -> Result<(), BatchError> {
        let senders: HashSet<&Aid> =
            items.iter().flatten().filter_map(|item| item.caller_aid.as_ref()).collect();
        let stored =
            senders.into_iter().filter_map(|sender| self.recent_peers.remember(sender, &lease.issuer, now));
        try_join_all(stored).await.map(drop)
    }

    /// An outcome for each of them, in order.
    async fn forward_page(
        &self,
        lease: &Lease,
        items: Vec<Option<Forward>>,
    ) -> Vec<Result<Box<RawValue>, RpcError>> {
        let readable: Vec<bool> = items.iter().map(Option::is_some).collect();
        let items = items.into_iter().flatten().collect();
        let target_issuer = Some(lease.issuer.clone());
        let batch = ForwardBatch { target_issuer, target_aid: None, items, timeout_ms: None };
        let own = Caller::service("message");
        let mut results = match self.mesh.forward_batch("message", &own, &batch).await {
            Ok(answer) => answer.results.into_iter().map(ForwardOutcome::into_result).collect::<Vec<_>>(),
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
fn forward(row: &OutboxRow, now: i64) -> Option<Forward> {
    let data: OutboxData = serde_json::from_str(&row.data).ok()?;
    let params = match row.ttl_until {
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
    Some(Forward {
        target_issuer: None,
        target_aid: None,
        namespace: "message".to_owned(),
        method: "send".to_owned(),
        params,
        caller_aid: Some(data.caller_aid),
        as_service: false,
        device_id: data.device_id,
        slot_id: data.slot_id,
        relay_id: None,
        timeout_ms: None,
        trace: None,
    })
}

/// Which messages need not be sent again, and why others do.
fn settle(
    lease: &Lease,
    rows: Vec<OutboxRow>,
    outcomes: Vec<Result<Box<RawValue>, RpcError>>,
) -> (Settled, Option<PageOutcome>) {
    let (mut settled, mut failed, mut may_have_arrived) = (Settled::default(), None, false);
    for (row, outcome) in rows.into_iter().zip(outcomes) {
        match outcome {
            Ok(_) => settled.accepted.push(row.key),
            Err(error) if may_succeed_later(&error) => {
                may_have_arrived |= !is_unreachable(&error) || link_lost(&error);
                failed.get_or_insert(error.to_string());
            }
            Err(error) => {
                tracing::warn!(
                    peer.issuer = lease.issuer,
                    code = error.code(),
                    "{} refuses a message that waited for it: {error}",
                    lease.issuer
                );
                settled.refused.push(row.key);
            }
        }
    }
    (settled, failed.map(|error| PageOutcome::Failed { error, may_have_arrived }))
}

/// Whether a retry may succeed. An internal error of the peer may be repaired while the message waits.
fn may_succeed_later(error: &RpcError) -> bool {
    if error.code() == codes::INTERNAL.code {
        return true;
    }
    let retryable = error.data("retryable").and_then(serde_json::Value::as_bool);
    retryable.unwrap_or(matches!(error.code(), -32010 | -32011 | -32029 | 5000..=5999))
}

/// The error of a batch is the error of each message in it.
fn repeated(error: &RpcError) -> RpcError {
    let code = if is_unreachable(error) { codes::FEDERATION_UNREACHABLE } else { codes::FEDERATION_TIMEOUT };
    RpcError::new(code, error)
}

/// One second, doubled each time.
fn wait_after(attempts: i64) -> Duration {
    BackoffSchedule::new(FIRST_WAIT, LONGEST_WAIT).after(attempts + 1)
}
