//! A page: the rows of a destination that are sent together, and what became of them.

use super::rows::{EndCounts, OutboxRow, RemoveOnly};
use super::{Outbox, RowKind};
use crate::Lease;
use sqlx::{Any, AssertSqlSafe};

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
}

impl OutboxRow {
    pub fn settled(&self, end: RowEnd) -> SettledRow {
        SettledRow { key: self.key.clone(), version: self.version, end }
    }
}

impl PageOutcome {
    pub fn settled(row: SettledRow) -> PageOutcome {
        PageOutcome { settled: vec![row], failure: None }
    }

    pub fn failed(error: impl Into<String>) -> PageOutcome {
        let failure = SendFailure { error: error.into(), may_have_arrived: false };
        PageOutcome { settled: Vec::new(), failure: Some(failure) }
    }
}

impl Outbox {
    /// The rows that are sent next, up to the limits of a page. Marks whose time has not come are left out.
    pub(super) async fn next_rows(&self, destination: &str, now: i64) -> sqlx::Result<Vec<OutboxRow>> {
        let until = self.due_until(now);
        let count = self.count_fitting(destination, until).await?;
        self.rows_until(destination, until, count).await
    }

    /// The position up to which rows are due.
    pub(super) fn due_until(&self, now: i64) -> i64 {
        match self.settings.kind {
            RowKind::Payload => i64::MAX,
            RowKind::Mark => now,
        }
    }

    pub(super) async fn rows_until(
        &self,
        destination: &str,
        until: i64,
        most: i64,
    ) -> sqlx::Result<Vec<OutboxRow>> {
        let text = format!(
            "SELECT key, position, version, progress, data FROM {} WHERE destination = $1 AND position <= $2
             ORDER BY position, key LIMIT $3",
            self.tables.rows
        );
        sqlx::query_as::<Any, OutboxRow>(AssertSqlSafe(text))
            .bind(destination)
            .bind(until)
            .bind(most)
            .fetch_all(self.db.read())
            .await
    }

    /// How many rows fit into a page. Their sizes are in the index: no data is read that is not sent.
    async fn count_fitting(&self, destination: &str, until: i64) -> sqlx::Result<i64> {
        let most = i64::try_from(self.settings.page_rows).unwrap_or(i64::MAX);
        if self.settings.page_bytes == i64::MAX {
            return Ok(most);
        }
        let text = format!(
            "SELECT bytes FROM {} WHERE destination = $1 AND position <= $2 ORDER BY position, key LIMIT $3",
            self.tables.rows
        );
        let sizes: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(text))
            .bind(destination)
            .bind(until)
            .bind(most)
            .fetch_all(self.db.read())
            .await?;
        let (mut count, mut total) = (0, 0);
        for bytes in &sizes {
            total += bytes;
            if count > 0 && total > self.settings.page_bytes {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

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
                "{count} rows of the {name} outbox for {destination} waited too long and are removed"
            );
        }
    }
}
