//! Writes rows with a payload, in the transaction of their cause.

use super::Outbox;
use super::rows::{EndCounts, NewOutboxRow, RemoveOnly, row_bytes};
use super::settle::EndedRow;
use crate::json_rows::{self, Column};
use serde::Serialize;
use sqlx::{Any, AnyConnection, AssertSqlSafe};
use std::collections::{BTreeMap, HashSet};

const TOO_MANY: &str = "too many newer ones wait";

const COLUMNS: [Column; 10] = [
    ("key", "TEXT"),
    ("destination", "TEXT"),
    ("position", "BIGINT"),
    ("owner", "TEXT"),
    ("bytes", "BIGINT"),
    ("created_at", "BIGINT"),
    ("expires_at", "BIGINT"),
    ("tried_at", "BIGINT"),
    ("version", "BIGINT"),
    ("data", "TEXT"),
];

#[derive(Serialize)]
struct WrittenRow<'a> {
    key: &'a str,
    destination: &'a str,
    position: i64,
    owner: &'a str,
    bytes: i64,
    created_at: i64,
    expires_at: Option<i64>,
    tried_at: Option<i64>,
    version: i64,
    data: &'a str,
}

impl Outbox {
    /// Returns for each row whether it is new: one whose key waits already stays as it was.
    pub async fn add(&self, tx: &mut AnyConnection, rows: &[NewOutboxRow]) -> sqlx::Result<Vec<bool>> {
        let new = self.insert(tx, rows).await?;
        let mut sums: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        for (_, destination, bytes) in &new {
            let sum = sums.entry(destination).or_default();
            *sum = (sum.0 + 1, sum.1 + bytes);
        }
        let now = rows.iter().map(|row| row.created_at).max().unwrap_or_default();
        for (destination, sum) in sums {
            self.count_added(tx, destination, sum, now).await?;
            if let Some(most) = self.settings.most_waiting {
                self.give_up_oldest(tx, destination, most, now).await?;
            }
        }
        let mut new: HashSet<&str> = new.iter().map(|(key, ..)| key.as_str()).collect();
        Ok(rows.iter().map(|row| new.remove(row.key.as_str())).collect())
    }

    async fn insert(
        &self,
        tx: &mut AnyConnection,
        rows: &[NewOutboxRow],
    ) -> sqlx::Result<Vec<(String, String, i64)>> {
        let mut written: Vec<WrittenRow<'_>> = rows.iter().map(WrittenRow::of).collect();
        // In the same order in every process, so that two of them never wait for each other.
        written.sort_by_key(|row| row.key);
        let insert = json_rows::insert(self.db.engine(), 1, &self.tables.rows, &COLUMNS, "DO NOTHING");
        sqlx::query_as::<Any, (String, String, i64)>(AssertSqlSafe(format!(
            "{insert} RETURNING key, destination, bytes"
        )))
        .bind(json_rows::text(&written)?)
        .fetch_all(tx)
        .await
    }

    async fn count_added(
        &self,
        tx: &mut AnyConnection,
        destination: &str,
        (count, bytes): (i64, i64),
        now: i64,
    ) -> sqlx::Result<()> {
        let table = &self.tables.destinations;
        let text = format!(
            "INSERT INTO {table} (destination, waiting, bytes) VALUES ($1, $2, $3)
             ON CONFLICT (destination) DO UPDATE
             SET waiting = {table}.waiting + excluded.waiting, bytes = {table}.bytes + excluded.bytes,
                 next_try = CASE WHEN {table}.next_try > $4 THEN $4 ELSE {table}.next_try END"
        );
        sqlx::query(AssertSqlSafe(text))
            .bind(destination)
            .bind(count)
            .bind(bytes)
            .bind(self.settings.retry.demand_ms().map_or(i64::MAX, |demand| now + demand))
            .execute(tx)
            .await?;
        Ok(())
    }

    /// Gives up the oldest rows where too many wait: what they would say is older than what follows.
    async fn give_up_oldest(
        &self,
        tx: &mut AnyConnection,
        destination: &str,
        most: i64,
        now: i64,
    ) -> sqlx::Result<()> {
        let table = &self.tables.destinations;
        let text = format!("SELECT waiting, attempts FROM {table} WHERE destination = $1");
        let (waiting, attempts): (i64, i64) =
            sqlx::query_as(AssertSqlSafe(text)).bind(destination).fetch_one(&mut *tx).await?;
        if waiting <= most {
            return Ok(());
        }
        let text = format!(
            "SELECT key FROM {} WHERE destination = $1 ORDER BY position, key LIMIT $2",
            self.tables.rows
        );
        let oldest: Vec<String> = sqlx::query_scalar(AssertSqlSafe(text))
            .bind(destination)
            .bind(waiting - most)
            .fetch_all(&mut *tx)
            .await?;
        let removed = self.remove_rows(tx, destination, &oldest, RemoveOnly::default()).await?;
        let counts = EndCounts { refused: removed.len() as i64, ..EndCounts::default() };
        self.count_removed(tx, destination, &removed, counts).await?;
        if self.settings.retry.is_of_row() {
            // Only the first was tried, and the next one has its own attempts.
            let reset = "SET attempts = 0, next_try = 0, last_error = NULL WHERE destination = $1";
            let text = format!("UPDATE {table} {reset}");
            sqlx::query(AssertSqlSafe(text)).bind(destination).execute(&mut *tx).await?;
        }
        let ended = removed.iter().map(|row| {
            let tried = if Some(&row.key) == oldest.first() { attempts } else { 0 };
            EndedRow::given_up(row, destination, TOO_MANY, tried, now)
        });
        self.keep_ended(tx, destination, &ended.collect::<Vec<_>>()).await
    }
}

impl WrittenRow<'_> {
    fn of(row: &NewOutboxRow) -> WrittenRow<'_> {
        WrittenRow {
            key: &row.key,
            destination: &row.destination,
            position: row.position,
            owner: &row.owner,
            bytes: row_bytes(&row.data),
            created_at: row.created_at,
            expires_at: row.expires_at,
            tried_at: row.tried_at,
            version: 0,
            data: &row.data,
        }
    }
}
