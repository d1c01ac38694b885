//! A page: the rows of a destination that are sent together, and what became of them.

use super::rows::{EndCounts, OutboxRow, RemoveOnly};
use super::{Outbox, RowKind};
use crate::Lease;
use sqlx::AssertSqlSafe;
use std::time::Duration;

const EXPIRE_ROWS: i64 = 1000;

/// The next rows of a destination, in their order.
#[derive(Debug)]
pub struct OutboxPage {
    pub destination: String,
    pub rows: Vec<OutboxRow>,
    /// If this attempt fails, the first row is given up.
    pub last_attempt: bool,
}

/// What became of a page. Rows that are not among the settled ones stay, and are sent again.
#[derive(Debug, Default)]
pub struct PageOutcome {
    pub settled: Vec<SettledRow>,
    /// Why others stay. Without it the next page is sent at once.
    pub failure: Option<SendFailure>,
    /// Nothing was tried, and the destination has its next turn after this long. No failure is counted.
    pub postponed: Option<Duration>,
}

#[derive(Debug)]
pub struct SettledRow {
    pub key: String,
    /// Of a mark: the version that its destination knows now. A mark that was moved to a later one meanwhile stays.
    pub version: i64,
    pub end: RowEnd,
}

#[derive(Debug)]
pub enum RowEnd {
    Delivered,
    /// It will never be delivered, for this reason.
    GivenUp(String),
    /// It was sent up to here, and the rest follows.
    Part(String),
}

#[derive(Debug)]
pub struct SendFailure {
    pub error: String,
    /// Rows may have arrived all the same.
    pub may_have_arrived: bool,
    /// When the destination is tried again, where its sender knows better than the schedule.
    pub retry_in: Option<Duration>,
}

impl OutboxRow {
    pub fn settled(&self, end: RowEnd) -> SettledRow {
        SettledRow { key: self.key.clone(), version: self.version, end }
    }
}

impl PageOutcome {
    pub fn settled(row: SettledRow) -> PageOutcome {
        PageOutcome { settled: vec![row], ..PageOutcome::default() }
    }

    pub fn failed(error: impl Into<String>) -> PageOutcome {
        let failure = SendFailure { error: error.into(), may_have_arrived: false, retry_in: None };
        PageOutcome { failure: Some(failure), ..PageOutcome::default() }
    }

    /// A failure after which the destination is tried again at a time of its own.
    pub fn failed_until(error: impl Into<String>, wait: Duration) -> PageOutcome {
        let failure = SendFailure { error: error.into(), may_have_arrived: false, retry_in: Some(wait) };
        PageOutcome { failure: Some(failure), ..PageOutcome::default() }
    }

    pub fn postponed(wait: Duration) -> PageOutcome {
        PageOutcome { postponed: Some(wait), ..PageOutcome::default() }
    }
}

impl Outbox {
    /// Removes what has waited too long. False: another process has the lease by now.
    pub(super) async fn expire(&self, lease: &Lease, now: i64) -> sqlx::Result<bool> {
        if self.settings.kind == RowKind::Mark {
            return Ok(true);
        }
        let destination = lease.row();
        let text = format!(
            "SELECT key FROM {} WHERE destination = $1 AND expires_at <= $2 LIMIT $3",
            self.tables.rows
        );
        loop {
            let keys: Vec<String> = sqlx::query_scalar(AssertSqlSafe(text.as_str()))
                .bind(destination)
                .bind(now)
                .bind(EXPIRE_ROWS)
                .fetch_all(self.db.read())
                .await?;
            if keys.is_empty() {
                return Ok(true);
            }
            let mut tx = self.db.begin().await?;
            if !self.leases.renew(&mut tx, lease, now).await? {
                return Ok(false);
            }
            let removed = self.remove_rows(&mut tx, destination, &keys, RemoveOnly::default()).await?;
            let counts = EndCounts { expired: removed.len() as i64, ..EndCounts::default() };
            self.count_removed(&mut tx, destination, &removed, counts).await?;
            self.db.commit(tx).await?;
            let (count, name) = (removed.len(), self.settings.name);
            tracing::warn!(
                destination,
                "{count} rows of the {name} outbox for {destination} expired and were removed"
            );
        }
    }
}
