//! Delivers what waits for domains that could not be reached: page by page, in order, by one process at a time.

use super::lease::{Failure, Lease, Row, Settled};
use super::outbox::Kept;
use super::{broke_off, is_unreachable};
use crate::kernel::{Aid, BatchError, Forward, ForwardBatch, Outcome, RpcError, codes};
use crate::message::Message;
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::time::Duration;

/// How often it looks around when nobody wakes it.
const TICK: Duration = Duration::from_secs(1);
/// How many domains are delivered to at once.
const MOST: usize = 16;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How a page went.
enum Page {
    /// There may be more.
    Delivered,
    /// Nothing waits any more.
    Empty,
    /// Some are still there: the domain is not.
    Failed { error: String, may_have_arrived: bool },
    /// Another process has the lease.
    Lost,
}

impl Message {
    /// Runs until the server stops.
    pub(in super::super) async fn deliver(&self) {
        let (mut under_way, mut busy) = (FuturesUnordered::new(), HashSet::new());
        loop {
            for issuer in self.due(&busy).await {
                if busy.len() < MOST && busy.insert(issuer.clone()) {
                    under_way.push(async move {
                        self.deliver_to(&issuer).await;
                        issuer
                    });
                }
            }
            tokio::select! {
                Some(issuer) = under_way.next(), if !under_way.is_empty() => { busy.remove(&issuer); }
                () = self.outbox.wake.notify.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    pub(in super::super) async fn stop_delivery(&self) {
        if let Err(error) = self.outbox.give_back().await {
            tracing::debug!("the others wait until the turns of this process are over: {error}");
        }
    }

    /// The domains whose turn it is; those that were heard of again are among them.
    async fn due(&self, busy: &HashSet<String>) -> Vec<String> {
        let poked: Vec<String> = {
            let mut poked = self.outbox.wake.poked.lock();
            // One that is being tried right now may be about to give up: it is hurried after that.
            let free: Vec<String> = poked.iter().filter(|issuer| !busy.contains(*issuer)).cloned().collect();
            free.iter().for_each(|issuer| {
                poked.remove(issuer);
            });
            free
        };
        let due = async {
            for issuer in &poked {
                self.outbox.hurry(issuer).await?;
            }
            self.outbox.due(self.clock.now_ms()).await
        };
        due.await.unwrap_or_else(|error| {
            tracing::warn!("what waits for other domains cannot be read, will try again: {error}");
            Vec::new()
        })
    }

    /// Delivers until nothing waits or nothing gets there.
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
                Page::Delivered => {}
                Page::Lost => return Ok(()),
                Page::Empty => return self.outbox.release(&lease, None).await,
                Page::Failed { error, may_have_arrived } => {
                    let wait = self.ids.part_of(wait_after(lease.attempts));
                    let wait_ms = i64::try_from(wait.as_millis()).unwrap_or_default();
                    let now = self.clock.now_ms();
                    let next_try = now + wait_ms;
                    tracing::debug!(
                        peer.issuer = issuer,
                        retry_in_ms = wait_ms,
                        "{issuer} does not take what waits for it: {error}"
                    );
                    let may_have_arrived = may_have_arrived.then_some(now);
                    let failure = Failure { error: &error, next_try, may_have_arrived };
                    return self.outbox.release(&lease, Some(failure)).await;
                }
            }
        }
    }

    async fn deliver_page(&self, lease: &Lease) -> sqlx::Result<Page> {
        let now = self.clock.now_ms();
        if !self.outbox.expire(lease, now).await? {
            return Ok(Page::Lost);
        }
        let rows = self.outbox.page(lease).await?;
        let Some(last) = rows.last() else { return Ok(Page::Empty) };
        if !self.outbox.sending(lease, last.nth, now).await? {
            return Ok(Page::Lost);
        }

        let items: Vec<Option<Forward>> = rows.iter().map(|row| forward(row, now)).collect();
        if let Err(error) = self.note_page(lease, &items, now).await {
            return Ok(Page::Failed { error: error.to_string(), may_have_arrived: false });
        }
        let outcomes = self.forward_page(lease, items).await;

        let (settled, failed) = judge(lease, rows, outcomes);
        if !self.outbox.settle(lease, &settled, self.clock.now_ms()).await? {
            return Ok(Page::Lost);
        }
        Ok(failed.unwrap_or(Page::Delivered))
    }

    /// Whoever sent something of the page can take it back over there from now on.
    async fn note_page(&self, lease: &Lease, items: &[Option<Forward>], now: i64) -> Result<(), BatchError> {
        let senders: HashSet<&Aid> = items.iter().flatten().map(|item| &item.caller_aid).collect();
        let notes = senders.into_iter().filter_map(|sender| self.targets.note(sender, &lease.issuer, now));
        try_join_all(notes).await.map(drop)
    }

    /// An outcome for each of them, in order.
    async fn forward_page(
        &self,
        lease: &Lease,
        items: Vec<Option<Forward>>,
    ) -> Vec<Result<Box<RawValue>, RpcError>> {
        let readable: Vec<bool> = items.iter().map(Option::is_some).collect();
        let items = items.into_iter().flatten().collect();
        let batch = ForwardBatch { target_issuer: lease.issuer.clone(), items, timeout_ms: None };
        let mut results = match self.mesh.forward_batch("message", &batch).await {
            Ok(answer) => answer.results.into_iter().map(Outcome::into_result).collect::<Vec<_>>(),
            Err(error) => batch.items.iter().map(|_| Err(again(&error))).collect(),
        }
        .into_iter();
        let next = |readable: bool| match readable {
            true => results.next().unwrap_or_else(|| Err(RpcError::plain(codes::FEDERATION_TIMEOUT))),
            false => Err(RpcError::plain(codes::INVALID_PARAMS)),
        };
        readable.into_iter().map(next).collect()
    }
}

/// Nothing for a row that cannot be read any more.
fn forward(row: &Row, now: i64) -> Option<Forward> {
    let kept: Kept = serde_json::from_str(&row.data).ok()?;
    let params = match row.ttl_until {
        None => kept.params,
        // "A positive message TTL crosses as the remaining TTL" (federation, §1.2).
        Some(until) => {
            let (left, rest) = ((until - now).max(1), kept.params.get().strip_prefix('{')?);
            let seconds = if left % 1000 == 0 {
                (left / 1000).to_string()
            } else {
                format!("{}.{:03}", left / 1000, left % 1000)
            };
            RawValue::from_string(format!("{{\"ttl\":{seconds},{rest}")).ok()?
        }
    };
    Some(Forward {
        target_issuer: String::new(),
        namespace: "message".to_owned(),
        method: "send".to_owned(),
        params,
        caller_aid: kept.caller_aid,
        device_id: kept.device_id,
        slot_id: kept.slot_id,
        relay_id: None,
        timeout_ms: None,
        trace: None,
    })
}

/// What is over and what is not, and why not.
fn judge(
    lease: &Lease,
    rows: Vec<Row>,
    outcomes: Vec<Result<Box<RawValue>, RpcError>>,
) -> (Settled, Option<Page>) {
    let (mut settled, mut failed, mut may_have_arrived) = (Settled::default(), None, false);
    for (row, outcome) in rows.into_iter().zip(outcomes) {
        match outcome {
            Ok(_) => settled.accepted.push(row.key),
            Err(error) if passes(&error) => {
                may_have_arrived |= !is_unreachable(&error) || broke_off(&error);
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
    (settled, failed.map(|error| Page::Failed { error, may_have_arrived }))
}

/// Whether the next try may go better. What broke over there may be mended while the message is kept.
fn passes(error: &RpcError) -> bool {
    if error.code() == codes::INTERNAL.code {
        return true;
    }
    let says = error.data("retryable").and_then(serde_json::Value::as_bool);
    says.unwrap_or(matches!(error.code(), -32010 | -32011 | -32029 | 5000..=5999))
}

/// What went wrong with a batch went wrong with each of it.
fn again(error: &RpcError) -> RpcError {
    let code = if is_unreachable(error) { codes::FEDERATION_UNREACHABLE } else { codes::FEDERATION_TIMEOUT };
    RpcError::new(code, error)
}

/// One second, doubled each time.
fn wait_after(attempts: i64) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(1 << attempts.clamp(0, 6));
    doubled.min(LONGEST_WAIT)
}
