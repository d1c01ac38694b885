//! Sends what waits: page by page, in order, to several destinations at once.

use super::due::DueDestination;
use super::page::{OutboxPage, PageOutcome, RowEnd, SettledRow};
use super::{Outbox, RowKind};
use crate::{Lease, Task, World, await_polling};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use sqlx::AssertSqlSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How often it looks when nothing wakes it: another process may have left something.
const TICK: Duration = Duration::from_secs(1);

/// Where very many destinations wait and cannot be reached, a look at all of them takes longer than this. Then a quarter of the time is
/// spent with looking, and not all of it: each page that was sent asks for another look.
const SLOW_LOOK: Duration = Duration::from_millis(20);

/// What a service does with a page.
pub trait OutboxSender: Send + Sync {
    /// Sends it, and says what became of each row. A page may come again after it was sent: the process may have ended before that
    /// was stored, or its lease may have run out. An error of the store is no failure of the destination: it is not counted, and the
    /// page comes again when the lease has run out.
    fn send(&self, page: OutboxPage) -> impl Future<Output = sqlx::Result<PageOutcome>> + Send;
}

/// What is known of a destination while this process sends to it.
pub(super) struct SendTurn {
    pub lease: Lease,
    /// Failures in a row.
    pub attempts: i64,
    pub pages: usize,
    /// The owner whose row was the last one of the last page: the next page begins with the owner after it.
    pub last_owner: String,
    /// 1 if the last page was delivered, 0 if not; unset before the first.
    pub answered: Option<i64>,
    /// The rows of the page that is being sent, where it matters whether one may have arrived.
    pub sending: Vec<String>,
}

impl SendTurn {
    /// Remembers whether the destination took what it was sent.
    pub fn count_answer(&mut self, outcome: &PageOutcome) {
        if outcome.postponed.is_none() {
            let delivered = |row: &SettledRow| matches!(row.end, RowEnd::Delivered | RowEnd::Part(_));
            self.answered =
                Some(i64::from(outcome.failure.is_none() && outcome.settled.iter().any(delivered)));
        }
    }
}

/// How a destination stands after a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AfterPage {
    /// Its next page follows.
    Next,
    /// Its lease was given back, or another process has it.
    Over,
}

impl Outbox {
    /// The task that sends until the server stops, and then leaves its leases to other processes.
    pub fn task<S: OutboxSender + 'static>(
        self: &Arc<Outbox>,
        name: &'static str,
        world: &World,
        sender: &Arc<S>,
    ) -> Task {
        let (outbox, stop, sender) = (self.clone(), world.stop.clone(), sender.clone());
        Task::new(name, move || {
            let (outbox, stop, sender) = (outbox.clone(), stop.clone(), sender.clone());
            async move {
                stop.run_until_cancelled(outbox.run(&*sender)).await;
                outbox.leases.release_all().await;
            }
        })
    }

    /// Runs until it is dropped.
    pub async fn run(&self, sender: &impl OutboxSender) {
        let mut sending = FuturesUnordered::new();
        let mut next_look = Instant::now();
        loop {
            let _: ((), Vec<()>) = await_polling(sleep_until(next_look), &mut sending).await;
            let began = Instant::now();
            let (due, sent): (_, Vec<()>) = await_polling(self.look(), &mut sending).await;
            let looked = began.elapsed();
            if looked > SLOW_LOOK {
                next_look = Instant::now() + looked * 3;
            }
            for due in due {
                if let Some(slot) = self.slots.take(&due, &self.settings) {
                    sending.push(async move {
                        self.send_to(sender, &due.destination).await;
                        drop(slot);
                    });
                }
            }
            if !sent.is_empty() {
                continue; // More of these may be due, or can be reached again.
            }
            tokio::select! {
                Some(()) = sending.next(), if !sending.is_empty() => {}
                () = self.wake.notify.notified() => {}
                () = self.slots.freed.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    /// The destinations that are to be sent to now, among them those that can be reached again.
    async fn look(&self) -> Vec<DueDestination> {
        let reachable = self.wake.take_reachable(|destination| self.slots.is_busy(destination));
        self.try_look(&reachable).await.unwrap_or_else(|error| {
            tracing::warn!("the {} outbox cannot be read, will retry: {error}", self.settings.name);
            Vec::new()
        })
    }

    async fn try_look(&self, reachable: &[String]) -> sqlx::Result<Vec<DueDestination>> {
        for destination in reachable {
            self.retry_now(destination).await?;
        }
        self.forget_destinations().await?;
        self.refresh_failing().await?;
        self.due_destinations().await
    }

    /// Has a destination tried at once.
    async fn retry_now(&self, destination: &str) -> sqlx::Result<()> {
        let text = format!(
            "UPDATE {} SET next_try = 0 WHERE destination = $1 AND next_try > 0",
            self.tables.destinations
        );
        sqlx::query(AssertSqlSafe(text)).bind(destination).execute(self.db.write_alone()).await?;
        Ok(())
    }

    /// Sends to a destination until nothing waits, a page fails, or its turn is over.
    pub async fn send_to(&self, sender: &impl OutboxSender, destination: &str) {
        if let Err(error) = self.try_send_to(sender, destination).await {
            // The lease runs out, and the destination is tried again.
            tracing::warn!(destination, "sending to {destination} stops: {error}");
        }
    }

    async fn try_send_to(&self, sender: &impl OutboxSender, destination: &str) -> sqlx::Result<()> {
        let Some(mut turn) = self.begin_turn(destination).await? else { return Ok(()) };
        while self.send_page(sender, &mut turn).await? == AfterPage::Next {}
        Ok(())
    }

    /// `None` if another process sends to the destination.
    pub(super) async fn begin_turn(&self, destination: &str) -> sqlx::Result<Option<SendTurn>> {
        let now = self.clock.now_ms();
        let mut lease = self.leases.take(destination, now).await?;
        if lease.is_none() && self.settings.kind == RowKind::Mark && self.add_destination(destination).await?
        {
            lease = self.leases.take(destination, now).await?;
        }
        let Some(lease) = lease else { return Ok(None) };
        let text = format!(
            "SELECT attempts, sending, last_owner FROM {} WHERE destination = $1",
            self.tables.destinations
        );
        let state: Option<(i64, i64, String)> =
            sqlx::query_as(AssertSqlSafe(text)).bind(destination).fetch_optional(self.db.read()).await?;
        let Some((attempts, sending, last_owner)) = state else { return Ok(None) };
        if sending > 0 {
            // The process that had the lease before ended while these were being sent: they may have arrived.
            let mut tx = self.db.begin().await?;
            if !self.leases.renew(&mut tx, &lease, now).await? {
                return Ok(None);
            }
            self.mark_all_tried(&mut tx, destination, sending, now).await?;
            self.db.commit(tx).await?;
        }
        Ok(Some(SendTurn { lease, attempts, pages: 0, last_owner, answered: None, sending: Vec::new() }))
    }

    pub(super) async fn send_page(
        &self,
        sender: &impl OutboxSender,
        turn: &mut SendTurn,
    ) -> sqlx::Result<AfterPage> {
        let (now, destination) = (self.clock.now_ms(), turn.lease.row().to_owned());
        if !self.expire(&turn.lease, now).await? {
            return Ok(AfterPage::Over);
        }
        let rows = self.next_rows(turn, now).await?;
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            self.finish(turn).await?;
            return Ok(AfterPage::Over);
        };
        if self.settings.withdrawable {
            turn.sending = rows.iter().map(|row| row.key.clone()).collect();
            if !self.mark_sending(turn, last.position, now).await? {
                return Ok(AfterPage::Over);
            }
        }
        let first_key = first.key.clone();
        let last_attempt = self.settings.retry.is_last(turn.attempts);
        let mut outcome = sender.send(OutboxPage { destination, rows, last_attempt }).await?;
        if outcome.settled.is_empty() && outcome.failure.is_none() && outcome.postponed.is_none() {
            outcome = PageOutcome::failed("nothing of the page was sent");
        }
        if let Some(failure) = &outcome.failure {
            let destination = turn.lease.row();
            tracing::debug!(destination, "the outbox for {destination} cannot be sent: {}", failure.error);
        }
        turn.pages += 1;
        self.settle(turn, &first_key, outcome, self.clock.now_ms()).await
    }

    /// Written before rows up to this position are sent, so that after a crash they count as possibly arrived, with those before
    /// it whose owners wait for their turns. False: another process has the lease by now.
    async fn mark_sending(&self, turn: &SendTurn, position: i64, now: i64) -> sqlx::Result<bool> {
        let mut tx = self.db.begin().await?;
        if !self.leases.renew(&mut tx, &turn.lease, now).await? {
            return Ok(false);
        }
        let text = format!("UPDATE {} SET sending = $2 WHERE destination = $1", self.tables.destinations);
        sqlx::query(AssertSqlSafe(text)).bind(turn.lease.row()).bind(position).execute(&mut *tx).await?;
        self.db.commit(tx).await?;
        Ok(true)
    }
}
