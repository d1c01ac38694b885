//! Marks: that something has changed, of which a destination has yet to learn.
//!
//! A mark is written with the change, and what it stands for is read when it is sent. The same thing that changes again moves its
//! mark to the later version: it is one row, and a destination that was told of an earlier version leaves it.

use super::rows::{key_is_one_of, row_bytes};
use super::{Outbox, OutboxRow, RowKind};
use crate::json_rows::{self, Column};
use serde::Serialize;
use sqlx::{Any, AnyConnection, AssertSqlSafe};
use std::sync::atomic::Ordering;

const COLUMNS: [Column; 8] = [
    ("key", "TEXT"),
    ("destination", "TEXT"),
    ("position", "BIGINT"),
    ("owner", "TEXT"),
    ("bytes", "BIGINT"),
    ("created_at", "BIGINT"),
    ("version", "BIGINT"),
    ("data", "TEXT"),
];

/// How long the failures of a destination are remembered for which nothing waits.
const REMEMBERED_MS: i64 = 3_600_000;

/// A mark, as a row of the list that [`Outbox::mark_statement`] reads.
#[derive(Serialize)]
pub struct NewMark<'a> {
    key: &'a str,
    destination: &'a str,
    position: i64,
    owner: &'a str,
    bytes: i64,
    created_at: i64,
    version: i64,
    data: &'static str,
}

impl<'a> NewMark<'a> {
    /// That `key` has changed to `version`, of which the destination is told from `due_at` on.
    pub fn new(
        key: &'a str,
        destination: &'a str,
        owner: &'a str,
        version: i64,
        (created_at, due_at): (i64, i64),
    ) -> NewMark<'a> {
        NewMark {
            key,
            destination,
            position: due_at,
            owner,
            bytes: row_bytes(""),
            created_at,
            version,
            data: "",
        }
    }
}

impl Outbox {
    /// The statement that writes marks, for the transaction of their cause. The parameter of this number is their list
    /// ([`Self::mark_list`]); no two of them have the same key and destination.
    pub fn mark_statement(&self, parameter: usize) -> String {
        let moved = json_rows::replace(&["position", "version"]);
        let conflict = format!("(key, destination) {moved}");
        json_rows::insert(self.db.engine(), parameter, &self.tables.rows, &COLUMNS, &conflict)
    }

    pub fn mark_list(&self, marks: &[NewMark<'_>]) -> sqlx::Result<String> {
        json_rows::rows_text(self.db.engine(), &COLUMNS, &marks)
    }

    /// The marks of a destination, also those whose time has not come.
    pub async fn marks(&self, destination: &str, most: i64) -> sqlx::Result<Vec<OutboxRow>> {
        let text = format!(
            "SELECT key, position, version, progress, data FROM {} WHERE destination = $1 ORDER BY position, key LIMIT $2",
            self.tables.rows
        );
        sqlx::query_as::<Any, OutboxRow>(AssertSqlSafe(text))
            .bind(destination)
            .bind(most)
            .fetch_all(self.db.read())
            .await
    }

    /// A destination was told of these keys up to these versions, other than by the outbox.
    pub async fn remove_marks<'a>(
        &self,
        destination: &str,
        told: impl Iterator<Item = (&'a str, i64)>,
    ) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        self.remove_marks_in(&mut tx, destination, told).await?;
        self.db.commit(tx).await
    }

    /// In the order of their keys, so that two processes never wait for each other.
    pub(super) async fn remove_marks_in<'a>(
        &self,
        tx: &mut AnyConnection,
        destination: &str,
        told: impl Iterator<Item = (&'a str, i64)>,
    ) -> sqlx::Result<()> {
        let mut told: Vec<(&str, i64)> = told.collect();
        told.sort_unstable();
        let text =
            format!("DELETE FROM {} WHERE key = $1 AND destination = $2 AND version <= $3", self.tables.rows);
        for (key, version) in told {
            sqlx::query(AssertSqlSafe(text.as_str()))
                .bind(key)
                .bind(destination)
                .bind(version)
                .execute(&mut *tx)
                .await?;
        }
        Ok(())
    }

    /// Nobody has to learn of these keys any more: what they stand for is gone.
    pub async fn remove_keys(&self, tx: &mut AnyConnection, keys: &[String]) -> sqlx::Result<()> {
        let text = format!("DELETE FROM {} WHERE {}", self.tables.rows, key_is_one_of(self.db.engine(), 1));
        sqlx::query(AssertSqlSafe(text)).bind(json_rows::text(&keys)?).execute(tx).await?;
        Ok(())
    }

    /// A destination could not be told at once. It is tried again as if the outbox had failed.
    pub async fn count_failure(&self, destination: &str, error: &str) -> sqlx::Result<()> {
        self.failing.lock().insert(destination.to_owned());
        self.add_destination(destination).await?;
        let (now, table) = (self.clock.now_ms(), &self.tables.destinations);
        let mut tx = self.db.begin().await?;
        let text = format!(
            "UPDATE {table} SET attempts = attempts + 1, last_error = $2 WHERE destination = $1 RETURNING attempts"
        );
        let attempts: i64 =
            sqlx::query_scalar(AssertSqlSafe(text)).bind(destination).bind(error).fetch_one(&mut *tx).await?;
        let wait = self.settings.retry.wait_ms(attempts, &self.ids).unwrap_or_default();
        let text = format!("UPDATE {table} SET next_try = $2 WHERE destination = $1");
        sqlx::query(AssertSqlSafe(text)).bind(destination).bind(now + wait).execute(&mut *tx).await?;
        self.db.commit(tx).await
    }

    /// Adds the row of a destination; false if it is there. Marks do not: who writes one would wait for everybody who writes
    /// another one for the same destination.
    pub(super) async fn add_destination(&self, destination: &str) -> sqlx::Result<bool> {
        let text = format!(
            "INSERT INTO {} (destination) VALUES ($1) ON CONFLICT DO NOTHING",
            self.tables.destinations
        );
        let added = sqlx::query(AssertSqlSafe(text)).bind(destination).execute(self.db.write_alone()).await?;
        Ok(added.rows_affected() > 0)
    }

    /// Removes the destinations of marks for which nothing waits and nothing was tried for an hour: anybody may name a domain, and
    /// each would be a row for ever. Their fences begin again, which does no harm: a process that had a lease from before can only
    /// remove marks of what it has really told.
    pub(super) async fn forget_destinations(&self) -> sqlx::Result<()> {
        let now = self.clock.now_ms();
        let due = self.settings.kind == RowKind::Mark
            && now - self.forgot_at.load(Ordering::Relaxed) >= REMEMBERED_MS;
        if !due {
            return Ok(());
        }
        let (rows, destinations) = (&self.tables.rows, &self.tables.destinations);
        let text = format!(
            "DELETE FROM {destinations} WHERE next_try <= $1 AND leased_until <= $1
             AND NOT EXISTS (SELECT 1 FROM {rows} WHERE {rows}.destination = {destinations}.destination)"
        );
        sqlx::query(AssertSqlSafe(text)).bind(now - REMEMBERED_MS).execute(self.db.write_alone()).await?;
        self.forgot_at.store(now, Ordering::Relaxed);
        Ok(())
    }

    /// Only for marks of peers, which are also told beside the outbox: who has payloads sends them in order, and who has other destinations
    /// has very many of them.
    pub(super) async fn refresh_failing(&self) -> sqlx::Result<()> {
        if self.settings.kind == RowKind::Mark && self.settings.to_peers {
            let text = format!("SELECT destination FROM {} WHERE attempts > 0", self.tables.destinations);
            let failing: Vec<String> =
                sqlx::query_scalar(AssertSqlSafe(text)).fetch_all(self.db.read()).await?;
            *self.failing.lock() = failing.into_iter().collect();
        }
        Ok(())
    }
}
