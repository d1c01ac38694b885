//! Writes what became of a page, in one transaction that checks the lease first.

use super::page::{PageOutcome, RowEnd, SendFailure, SettledRow};
use super::rows::{EndCounts, NewOutboxRow, RemoveOnly, RemovedRow, key_is_one_of, unsearched};
use super::send::{AfterPage, SendTurn};
use super::{Outbox, RowKind};
use crate::json_rows::{self, Column};
use serde::Serialize;
use sqlx::{AnyConnection, AssertSqlSafe};
use std::collections::HashMap;

const ENDED: [Column; 9] = [
    ("key", "TEXT"),
    ("destination", "TEXT"),
    ("owner", "TEXT"),
    ("outcome", "TEXT"),
    ("reason", "TEXT"),
    ("attempts", "BIGINT"),
    ("created_at", "BIGINT"),
    ("ended_at", "BIGINT"),
    ("data", "TEXT"),
];

/// A row that ended, as it is kept.
#[derive(Serialize)]
pub(super) struct EndedRow<'a> {
    key: &'a str,
    destination: &'a str,
    owner: &'a str,
    outcome: &'static str,
    reason: Option<&'a str>,
    attempts: i64,
    created_at: i64,
    ended_at: i64,
    data: &'a str,
}

/// What is written of a destination.
struct DestinationChange<'a> {
    attempts: i64,
    next_try: i64,
    last_error: Option<&'a str>,
}

impl Outbox {
    /// Removes rows that ended and stores why others stay.
    pub(super) async fn settle(
        &self,
        turn: &mut SendTurn,
        first_key: &str,
        mut outcome: PageOutcome,
        now: i64,
    ) -> sqlx::Result<AfterPage> {
        turn.count_answer(&outcome);
        let tries = turn.attempts + 1;
        let retry_in = outcome.failure.as_ref().and_then(|failure| self.retry_in(failure, tries));
        if let (Some(failure), None) = (&outcome.failure, retry_in) {
            // It was the last attempt: the first row ends, and the next one is tried.
            let end = RowEnd::GivenUp(failure.error.clone());
            outcome.settled.push(SettledRow { key: first_key.to_owned(), version: i64::MAX, end });
            outcome.failure = None;
        }
        let turn_is_over = outcome.failure.is_some()
            || outcome.postponed.is_some()
            || turn.pages >= self.settings.turn_pages;
        let mut tx = self.db.begin().await?;
        let held = match turn_is_over {
            true => self.leases.end(&mut tx, &turn.lease).await?,
            false => self.leases.renew(&mut tx, &turn.lease, now).await?,
        };
        if !held {
            return Ok(AfterPage::Over);
        }
        self.store_ends(&mut tx, turn, &outcome.settled, now).await?;
        if let Some(failure) = &outcome.failure {
            self.store_failure(&mut tx, turn, first_key, failure, now + retry_in.unwrap_or_default(), now)
                .await?;
        } else if let Some(wait) = outcome.postponed {
            self.store_postponed(
                &mut tx,
                turn,
                now + i64::try_from(wait.as_millis()).unwrap_or(i64::MAX / 2),
            )
            .await?;
        } else if self.settings.retry.is_of_row() || turn_is_over {
            let attempts = if self.settings.retry.is_of_row() { 0 } else { turn.attempts };
            let change = DestinationChange { attempts, next_try: now, last_error: None };
            self.change_destination(&mut tx, turn, &change).await?;
            turn.attempts = attempts;
        }
        self.db.commit(tx).await?;
        Ok(if turn_is_over { AfterPage::Over } else { AfterPage::Next })
    }

    /// How long to wait after a failure; `None` where the row is given up.
    fn retry_in(&self, failure: &SendFailure, tries: i64) -> Option<i64> {
        match failure.retry_in {
            Some(wait) => Some(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX / 2)),
            None => self.settings.retry.wait_ms(tries, &self.ids),
        }
    }

    /// Nothing is left for the destination.
    pub(super) async fn finish(&self, turn: &SendTurn) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        if self.leases.end(&mut tx, &turn.lease).await? {
            let change = DestinationChange { attempts: 0, next_try: 0, last_error: None };
            self.change_destination(&mut tx, turn, &change).await?;
        }
        self.db.commit(tx).await?;
        self.failing.lock().remove(turn.lease.row());
        Ok(())
    }

    async fn store_ends(
        &self,
        tx: &mut AnyConnection,
        turn: &SendTurn,
        settled: &[SettledRow],
        now: i64,
    ) -> sqlx::Result<()> {
        let destination = turn.lease.row();
        let mut ends: HashMap<&str, &SettledRow> = HashMap::new();
        for row in settled {
            match &row.end {
                RowEnd::Part(progress) => self.store_progress(tx, destination, &row.key, progress).await?,
                RowEnd::Delivered | RowEnd::GivenUp(_) => {
                    ends.insert(&row.key, row);
                }
            }
        }
        if self.settings.kind == RowKind::Mark {
            return self
                .remove_marks_in(tx, destination, ends.values().map(|row| (&*row.key, row.version)))
                .await;
        }
        let keys: Vec<&str> = ends.keys().copied().collect();
        let removed = self.remove_rows(tx, destination, &keys, RemoveOnly::default()).await?;
        let mut counts = EndCounts::default();
        let mut ended = Vec::with_capacity(removed.len());
        for row in &removed {
            let reason = match ends.get(row.key.as_str()).map(|settled| &settled.end) {
                Some(RowEnd::GivenUp(reason)) => Some(reason.as_str()),
                _ => None,
            };
            counts.delivered += i64::from(reason.is_none());
            counts.refused += i64::from(reason.is_some());
            ended.push(EndedRow::of(row, destination, reason, turn.attempts + 1, now));
        }
        self.count_removed(tx, destination, &removed, counts).await?;
        self.keep_ended(tx, destination, &ended).await
    }

    async fn store_progress(
        &self,
        tx: &mut AnyConnection,
        destination: &str,
        key: &str,
        progress: &str,
    ) -> sqlx::Result<()> {
        let text =
            format!("UPDATE {} SET progress = $3 WHERE key = $1 AND destination = $2", self.tables.rows);
        sqlx::query(AssertSqlSafe(text)).bind(key).bind(destination).bind(progress).execute(tx).await?;
        Ok(())
    }

    /// Counts a failure, unless it is that of a row which does not wait any more.
    async fn store_failure(
        &self,
        tx: &mut AnyConnection,
        turn: &SendTurn,
        first_key: &str,
        failure: &SendFailure,
        next_try: i64,
        now: i64,
    ) -> sqlx::Result<()> {
        if failure.may_have_arrived {
            self.mark_tried(tx, turn, now).await?;
        }
        let counts = !self.settings.retry.is_of_row() || self.waits(tx, turn.lease.row(), first_key).await?;
        let change = match counts {
            true => {
                DestinationChange { attempts: turn.attempts + 1, next_try, last_error: Some(&failure.error) }
            }
            false => DestinationChange { attempts: 0, next_try: now, last_error: None },
        };
        self.change_destination(tx, turn, &change).await
    }

    /// Sets when the destination has its next turn, and nothing else.
    async fn store_postponed(
        &self,
        tx: &mut AnyConnection,
        turn: &SendTurn,
        next_try: i64,
    ) -> sqlx::Result<()> {
        let text = format!(
            "UPDATE {} SET next_try = $2, sending = 0 WHERE destination = $1",
            self.tables.destinations
        );
        sqlx::query(AssertSqlSafe(text)).bind(turn.lease.row()).bind(next_try).execute(tx).await?;
        Ok(())
    }

    async fn waits(&self, tx: &mut AnyConnection, destination: &str, key: &str) -> sqlx::Result<bool> {
        let text = format!("SELECT COUNT(*) FROM {} WHERE key = $1 AND destination = $2", self.tables.rows);
        let rows: i64 =
            sqlx::query_scalar(AssertSqlSafe(text)).bind(key).bind(destination).fetch_one(tx).await?;
        Ok(rows > 0)
    }

    /// The rows of the page may have arrived, whatever happens to them next.
    async fn mark_tried(&self, tx: &mut AnyConnection, turn: &SendTurn, now: i64) -> sqlx::Result<()> {
        let text = format!(
            "UPDATE {} SET tried_at = $3 WHERE {} AND {} = $2 AND tried_at IS NULL",
            self.tables.rows,
            key_is_one_of(self.db.engine(), 1),
            unsearched(self.db.engine(), "destination")
        );
        sqlx::query(AssertSqlSafe(text))
            .bind(json_rows::text(&turn.sending)?)
            .bind(turn.lease.row())
            .bind(now)
            .execute(tx)
            .await?;
        Ok(())
    }

    /// All rows up to a position may have arrived: which of them a process was sending that ended is not known.
    pub(super) async fn mark_all_tried(
        &self,
        tx: &mut AnyConnection,
        destination: &str,
        until: i64,
        now: i64,
    ) -> sqlx::Result<()> {
        let text = format!(
            "UPDATE {} SET tried_at = $3 WHERE destination = $1 AND position <= $2 AND tried_at IS NULL",
            self.tables.rows
        );
        sqlx::query(AssertSqlSafe(text)).bind(destination).bind(until).bind(now).execute(tx).await?;
        Ok(())
    }

    async fn change_destination(
        &self,
        tx: &mut AnyConnection,
        turn: &SendTurn,
        change: &DestinationChange<'_>,
    ) -> sqlx::Result<()> {
        let text = format!(
            "UPDATE {} SET attempts = $2, next_try = $3, last_error = $4, sending = 0, last_owner = $5,
                 answered = COALESCE($6, answered)
             WHERE destination = $1",
            self.tables.destinations
        );
        sqlx::query(AssertSqlSafe(text))
            .bind(turn.lease.row())
            .bind(change.attempts)
            .bind(change.next_try)
            .bind(change.last_error)
            .bind(turn.last_owner.as_str())
            .bind(turn.answered)
            .execute(tx)
            .await?;
        Ok(())
    }

    /// Keeps that something was given up that was never a row, in the transaction of the caller.
    pub async fn keep_given_up(
        &self,
        tx: &mut AnyConnection,
        row: &NewOutboxRow,
        reason: &str,
        attempts: i64,
    ) -> sqlx::Result<()> {
        let ended = EndedRow {
            key: &row.key,
            destination: &row.destination,
            owner: &row.owner,
            outcome: "given_up",
            reason: Some(reason),
            attempts,
            created_at: row.created_at,
            ended_at: self.clock.now_ms(),
            data: &row.data,
        };
        self.keep_ended(tx, &row.destination, &[ended]).await
    }

    /// Has a destination tried at once, as if it had never failed, in the transaction of the caller.
    pub async fn restart(&self, tx: &mut AnyConnection, destination: &str) -> sqlx::Result<()> {
        let text = format!(
            "UPDATE {} SET attempts = 0, next_try = 0, last_error = NULL WHERE destination = $1",
            self.tables.destinations
        );
        sqlx::query(AssertSqlSafe(text)).bind(destination).execute(tx).await?;
        Ok(())
    }

    /// Keeps the last rows of a destination that ended, as many as the service wants.
    pub(super) async fn keep_ended(
        &self,
        tx: &mut AnyConnection,
        destination: &str,
        ended: &[EndedRow<'_>],
    ) -> sqlx::Result<()> {
        if self.settings.kept_ended == 0 || ended.is_empty() {
            return Ok(());
        }
        let table = &self.tables.ended;
        let insert = json_rows::insert(self.db.engine(), 1, table, &ENDED, "DO NOTHING");
        let rows = json_rows::rows_text(self.db.engine(), &ENDED, &ended)?;
        sqlx::query(AssertSqlSafe(insert)).bind(rows).execute(&mut *tx).await?;
        let text = format!(
            "DELETE FROM {table} WHERE destination = $1 AND key NOT IN
                 (SELECT key FROM {table} WHERE destination = $1 ORDER BY key DESC LIMIT $2)"
        );
        sqlx::query(AssertSqlSafe(text))
            .bind(destination)
            .bind(self.settings.kept_ended)
            .execute(&mut *tx)
            .await?;
        Ok(())
    }
}

impl<'a> EndedRow<'a> {
    fn of(
        row: &'a RemovedRow,
        destination: &'a str,
        reason: Option<&'a str>,
        attempts: i64,
        now: i64,
    ) -> EndedRow<'a> {
        EndedRow {
            key: &row.key,
            destination,
            owner: &row.owner,
            outcome: if reason.is_none() { "delivered" } else { "given_up" },
            reason,
            attempts,
            created_at: row.created_at,
            ended_at: now,
            data: &row.data,
        }
    }

    pub fn given_up(
        row: &'a RemovedRow,
        destination: &'a str,
        reason: &'a str,
        attempts: i64,
        now: i64,
    ) -> EndedRow<'a> {
        EndedRow::of(row, destination, Some(reason), attempts, now)
    }
}
