//! What the operator lets some agents keep, instead of a share: the table `account_limit` of a service, read into memory.

use super::Kept;
use crate::{Aid, Db};
use parking_lot::RwLock;
use std::collections::HashMap;

pub struct ChangedLimits {
    db: Db,
    limits: RwLock<HashMap<String, Kept>>,
}

impl ChangedLimits {
    /// Its table is there. [`read`](Self::read) reads it.
    pub fn new(db: &Db) -> ChangedLimits {
        ChangedLimits { db: db.clone(), limits: RwLock::default() }
    }

    pub fn of(&self, aid: &str) -> Option<Kept> {
        self.limits.read().get(aid).copied()
    }

    /// Other processes read what one has changed some seconds later.
    pub async fn read(&self) -> sqlx::Result<()> {
        let rows: Vec<(String, i64, i64)> = sqlx::query_as("SELECT aid, bytes, kept_rows FROM account_limit")
            .fetch_all(self.db.read())
            .await?;
        *self.limits.write() =
            rows.into_iter().map(|(aid, bytes, rows)| (aid, Kept { bytes, rows })).collect();
        Ok(())
    }

    /// What is not given stays as it is; 0 gives the share back that everybody has.
    pub async fn set(
        &self,
        aid: &Aid,
        share: Kept,
        bytes: Option<i64>,
        rows: Option<i64>,
    ) -> sqlx::Result<()> {
        let now = self.of(aid.as_str()).unwrap_or(share);
        let given = |given: Option<i64>, now: i64, share: i64| match given {
            None => now,
            Some(0) => share,
            Some(given) => given,
        };
        let bytes = given(bytes, now.bytes, share.bytes);
        let rows = given(rows, now.rows, share.rows);
        let query = match (Kept { bytes, rows }) == share {
            true => sqlx::query("DELETE FROM account_limit WHERE aid = $1").bind(aid.as_str()),
            false => sqlx::query(
                "INSERT INTO account_limit (aid, bytes, kept_rows) VALUES ($1, $2, $3)
                 ON CONFLICT (aid) DO UPDATE SET bytes = excluded.bytes, kept_rows = excluded.kept_rows",
            )
            .bind(aid.as_str())
            .bind(bytes)
            .bind(rows),
        };
        self.db.counted(query.execute(self.db.write_alone())).await?;
        self.read().await
    }
}
