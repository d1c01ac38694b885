//! Takes back rows that are not being sent.

use super::Outbox;
use super::rows::{EndCounts, RemoveOnly, key_is_one_of};
use crate::json_rows;
use sqlx::{AnyConnection, AssertSqlSafe};
use std::collections::{BTreeMap, HashSet};

/// The keys that were removed, and the keys that still wait, with their destinations.
#[derive(Debug, Default)]
pub struct OutboxWithdrawal {
    pub withdrawn: HashSet<String>,
    pub waiting: BTreeMap<String, String>,
}

impl Outbox {
    /// Removes rows that are not being sent, with `untried` only those that cannot have arrived by an earlier try.
    pub async fn withdraw(&self, keys: &[String], untried: bool) -> sqlx::Result<OutboxWithdrawal> {
        let text = format!(
            "SELECT key, destination FROM {} WHERE {}",
            self.tables.rows,
            key_is_one_of(self.db.engine(), 1)
        );
        let found: Vec<(String, String)> = sqlx::query_as(AssertSqlSafe(text))
            .bind(json_rows::text(&keys)?)
            .fetch_all(self.db.read())
            .await?;
        let mut withdrawal =
            OutboxWithdrawal { withdrawn: HashSet::new(), waiting: found.into_iter().collect() };
        let destinations: HashSet<String> = withdrawal.waiting.values().cloned().collect();
        for destination in destinations {
            let of_destination = withdrawal.waiting.iter().filter(|(_, other)| **other == destination);
            let keys: Vec<&String> = of_destination.map(|(key, _)| key).collect();
            let mut tx = self.db.begin().await?;
            let sending = self.lock_destination(&mut tx, &destination).await?;
            let only = RemoveOnly { after: Some(sending), untried };
            let removed = self.remove_rows(&mut tx, &destination, &keys, only).await?;
            self.count_removed(&mut tx, &destination, &removed, EndCounts::default()).await?;
            self.db.commit(tx).await?;
            withdrawal.withdrawn.extend(removed.into_iter().map(|row| row.key));
        }
        withdrawal.waiting.retain(|key, _| !withdrawal.withdrawn.contains(key));
        Ok(withdrawal)
    }

    /// Locks the destination until the commit: the process that sends writes `sending` there before it sends, so what is not being
    /// sent now cannot be before it is removed.
    async fn lock_destination(&self, tx: &mut AnyConnection, destination: &str) -> sqlx::Result<i64> {
        let text = format!(
            "UPDATE {} SET waiting = waiting WHERE destination = $1 RETURNING sending",
            self.tables.destinations
        );
        sqlx::query_scalar(AssertSqlSafe(text)).bind(destination).fetch_one(tx).await
    }
}
