//! Writes rows with a payload, in the transaction of their cause.

use super::Outbox;
use super::rows::{EndCounts, NewOutboxRow, RemovedRow, row_bytes, unsearched};
use crate::json_rows::{self, Column};
use serde::Serialize;
use sqlx::{Any, AnyConnection, AssertSqlSafe};
use std::collections::{BTreeMap, BTreeSet, HashSet};

const COLUMNS: [Column; 11] = [
    ("key", "TEXT"),
    ("destination", "TEXT"),
    ("position", "BIGINT"),
    ("owner", "TEXT"),
    ("bytes", "BIGINT"),
    ("created_at", "BIGINT"),
    ("expires_at", "BIGINT"),
    ("tried_at", "BIGINT"),
    ("version", "BIGINT"),
    ("subject", "TEXT"),
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
    subject: Option<String>,
    data: &'a str,
}

impl Outbox {
    /// Returns for each row whether it is new: one whose key waits already stays as it was. A row about the same as one that waits
    /// replaces it, and where too many wait, the oldest are given up.
    pub async fn add(&self, tx: &mut AnyConnection, rows: &[NewOutboxRow]) -> sqlx::Result<Vec<bool>> {
        let written: Vec<WrittenRow<'_>> = rows.iter().map(|row| self.written(row)).collect();
        let new = self.insert(tx, &written).await?;
        let mut sums: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        for (_, destination, bytes) in &new {
            let sum = sums.entry(destination).or_default();
            *sum = (sum.0 + 1, sum.1 + bytes);
        }
        let now = rows.iter().map(|row| row.created_at).max().unwrap_or_default();
        for (destination, sum) in sums {
            // It locks the destination, which comes before everything that removes rows.
            self.count_added(tx, destination, sum, now).await?;
            self.replace_older(tx, destination, &written).await?;
            if let Some(most) = self.settings.most_waiting {
                self.give_up_oldest(tx, destination, most, now).await?;
            }
        }
        if let Some(most) = self.settings.most_of_owner {
            let of_whom: BTreeSet<_> =
                rows.iter().map(|row| (row.owner.as_str(), row.destination.as_str())).collect();
            for (owner, destination) in of_whom {
                self.give_up_oldest_of_owner(tx, (owner, destination), most, now).await?;
            }
        }
        let mut new: HashSet<&str> = new.iter().map(|(key, ..)| key.as_str()).collect();
        Ok(rows.iter().map(|row| new.remove(row.key.as_str())).collect())
    }

    async fn insert(
        &self,
        tx: &mut AnyConnection,
        written: &[WrittenRow<'_>],
    ) -> sqlx::Result<Vec<(String, String, i64)>> {
        let mut written: Vec<&WrittenRow<'_>> = written.iter().collect();
        // In the same order in every process, so that two of them never wait for each other.
        written.sort_by_key(|row| row.key);
        let insert = json_rows::insert(self.db.engine(), 1, &self.tables.rows, &COLUMNS, "DO NOTHING");
        sqlx::query_as::<Any, (String, String, i64)>(AssertSqlSafe(format!(
            "{insert} RETURNING key, destination, bytes"
        )))
        .bind(json_rows::rows_text(self.db.engine(), &COLUMNS, &written)?)
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

    /// Removes the rows that wait and are about the same as newer ones: what they say is not true any more. One that is being sent at
    /// this moment arrives all the same, before the newer one.
    async fn replace_older(
        &self,
        tx: &mut AnyConnection,
        destination: &str,
        written: &[WrittenRow<'_>],
    ) -> sqlx::Result<()> {
        let text = self.replace_statement();
        for row in written.iter().filter(|row| row.destination == destination) {
            let Some(subject) = &row.subject else { continue };
            let replaced: Vec<RemovedRow> = sqlx::query_as::<Any, RemovedRow>(AssertSqlSafe(text.as_str()))
                .bind(destination)
                .bind(subject.as_str())
                .bind(row.position)
                .bind(row.key)
                .fetch_all(&mut *tx)
                .await?;
            self.count_removed(tx, destination, &replaced, EndCounts::default()).await?;
        }
        Ok(())
    }

    pub(super) fn replace_statement(&self) -> String {
        format!(
            "DELETE FROM {} WHERE destination = $1 AND subject = $2 AND {} <= $3 AND key <> $4
             RETURNING key, bytes, owner, created_at, '' AS data",
            self.tables.rows,
            unsearched(self.db.engine(), "position")
        )
    }

    fn written<'a>(&self, row: &'a NewOutboxRow) -> WrittenRow<'a> {
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
            subject: self.settings.subject.and_then(|subject| subject(&row.data)),
            data: &row.data,
        }
    }
}
