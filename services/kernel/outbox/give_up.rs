//! Gives up the oldest rows where too many wait: what they would say is older than what follows.

use super::Outbox;
use super::rows::{EndCounts, RemoveOnly};
use super::settle::EndedRow;
use crate::Engine;
use sqlx::{Any, AnyConnection, AssertSqlSafe};
use std::collections::BTreeMap;

const TOO_MANY: &str = "replaced: too many newer ones are waiting";
const TOO_MANY_OF_OWNER: &str = "replaced: too many newer ones of its owner are waiting";
/// How many rows of an owner are given up for each that is added: where the limit became smaller, the rest follows.
const AT_ONCE: i64 = 100;

impl Outbox {
    /// Gives up the oldest rows of a destination, which the transaction has locked.
    pub(super) async fn give_up_oldest(
        &self,
        tx: &mut AnyConnection,
        destination: &str,
        most: i64,
        now: i64,
    ) -> sqlx::Result<()> {
        let text = format!("SELECT waiting FROM {} WHERE destination = $1", self.tables.destinations);
        let waiting: i64 =
            sqlx::query_scalar(AssertSqlSafe(text)).bind(destination).fetch_one(&mut *tx).await?;
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
        self.give_up(tx, destination, &oldest, TOO_MANY, now).await
    }

    /// Gives up the oldest rows of an owner: those for this destination, or where destinations belong to owners, those for all of its
    /// destinations.
    pub(super) async fn give_up_oldest_of_owner(
        &self,
        tx: &mut AnyConnection,
        (owner, destination): (&str, &str),
        most: i64,
        now: i64,
    ) -> sqlx::Result<()> {
        let only = if self.settings.owned.is_some() { "" } else { "AND destination = $4" };
        let text = format!(
            "SELECT destination, key FROM {} WHERE owner = $1 {only} ORDER BY position DESC, key DESC LIMIT $2 OFFSET $3",
            self.tables.rows
        );
        let query =
            sqlx::query_as::<Any, (String, String)>(AssertSqlSafe(text)).bind(owner).bind(AT_ONCE).bind(most);
        let query = if self.settings.owned.is_some() { query } else { query.bind(destination) };
        let mut oldest: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (destination, key) in query.fetch_all(&mut *tx).await?.into_iter().rev() {
            oldest.entry(destination).or_default().push(key);
        }
        for (destination, keys) in oldest {
            if self.lock_if_free(tx, &destination).await? {
                self.give_up(tx, &destination, &keys, TOO_MANY_OF_OWNER, now).await?;
            }
        }
        Ok(())
    }

    /// Locks a destination. False if another transaction has it: two that have one each and want the other would wait for each
    /// other, and the next row that is added finds the rows again.
    async fn lock_if_free(&self, tx: &mut AnyConnection, destination: &str) -> sqlx::Result<bool> {
        let lock = match self.db.engine() {
            Engine::Sqlite => "",
            Engine::Postgres => "FOR UPDATE SKIP LOCKED",
        };
        let text =
            format!("SELECT destination FROM {} WHERE destination = $1 {lock}", self.tables.destinations);
        let locked: Option<String> =
            sqlx::query_scalar(AssertSqlSafe(text)).bind(destination).fetch_optional(tx).await?;
        Ok(locked.is_some())
    }

    /// Gives up rows of a destination, the first of them first.
    async fn give_up(
        &self,
        tx: &mut AnyConnection,
        destination: &str,
        oldest: &[String],
        reason: &str,
        now: i64,
    ) -> sqlx::Result<()> {
        let table = &self.tables.destinations;
        let text = format!("SELECT attempts FROM {table} WHERE destination = $1");
        let attempts: i64 =
            sqlx::query_scalar(AssertSqlSafe(text)).bind(destination).fetch_one(&mut *tx).await?;
        let removed = self.remove_rows(tx, destination, oldest, RemoveOnly::default()).await?;
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
            EndedRow::given_up(row, destination, reason, tried, now)
        });
        self.keep_ended(tx, destination, &ended.collect::<Vec<_>>()).await
    }
}
