//! What is due, and what is too old.

use super::Store;
use super::keeping::KEEPING;
use super::row::{aid, task_id};
use kernel::json_rows as json;
use kernel::{Engine, Payer};
use proto_schemas::requests::task::TaskId;
use sqlx::{Any, AnyConnection, AssertSqlSafe};
use std::collections::BTreeSet;

/// Rows that one transaction removes.
const STEP: i64 = 500;

impl Store {
    /// Tasks whose time has run out, the longest ago first, with that time.
    pub async fn due(&self, now: i64, most: i64) -> sqlx::Result<Vec<(TaskId, i64)>> {
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT id, due_at FROM task WHERE due_at <= $1 ORDER BY due_at LIMIT $2")
                .bind(now)
                .bind(most)
                .fetch_all(self.db.read())
                .await?;
        rows.into_iter().map(|(id, due_at)| Ok((task_id(id)?, due_at))).collect()
    }

    /// How many tasks are open: all that have a time.
    pub async fn open_tasks(&self) -> sqlx::Result<i64> {
        sqlx::query_scalar("SELECT COUNT(*) FROM task WHERE due_at IS NOT NULL")
            .fetch_one(self.db.read())
            .await
    }

    /// Removes tasks that ended before this, with everything of theirs. A task ends after all below it, so none of a tree is left
    /// without the ones above.
    pub async fn remove_ended(&self, before: i64) -> sqlx::Result<u64> {
        let mut removed = 0;
        loop {
            let mut tx = self.begin().await?;
            let ids: Vec<String> = sqlx::query_scalar(
                "SELECT id FROM task WHERE ended_at < $1 ORDER BY ended_at, depth DESC LIMIT $2",
            )
            .bind(before)
            .bind(STEP)
            .fetch_all(&mut *tx)
            .await?;
            if ids.is_empty() {
                return Ok(removed);
            }
            self.remove_tasks(&mut tx, &ids).await?;
            tx.commit().await?;
            removed += ids.len() as u64;
        }
    }

    /// Removes tasks with everything of theirs.
    pub(super) async fn remove_tasks(&self, tx: &mut AnyConnection, ids: &[String]) -> sqlx::Result<()> {
        let (list, given) = (json::text(&ids)?, json::texts(self.engine(), 1));
        if self.engine() == Engine::Postgres {
            // In the order in which others lock roots.
            let text = format!("SELECT id FROM task WHERE id IN {given} ORDER BY id FOR UPDATE");
            sqlx::query(AssertSqlSafe(text)).bind(list.as_str()).fetch_all(&mut *tx).await?;
            let payers = self.payers_of(tx, &list).await?;
            self.account.lock(tx, &payers).await?;
        }
        for (table, column) in [
            ("task_subscription", "task_id"),
            ("task_message", "task_id"),
            ("task_artifact", "task_id"),
            ("task_participant", "task_id"),
            ("task", "id"),
        ] {
            let text = format!("DELETE FROM {table} WHERE {column} IN {given}");
            sqlx::query(AssertSqlSafe(text)).bind(list.as_str()).execute(&mut *tx).await?;
        }
        self.outbox.remove_keys(tx, ids).await
    }

    /// Who pays for these tasks, and for what is in them.
    async fn payers_of(&self, tx: &mut AnyConnection, tasks: &str) -> sqlx::Result<BTreeSet<Payer>> {
        let given = json::texts(self.engine(), 1);
        let of_each = KEEPING.tables.iter().map(|table| {
            let id = if table.name == "task" { "id" } else { "task_id" };
            format!("SELECT {} AS payer FROM {} WHERE {id} IN {given}", table.payer, table.name)
        });
        let text = of_each.collect::<Vec<_>>().join(" UNION ");
        let query = sqlx::query_scalar::<Any, String>(AssertSqlSafe(text));
        let payers = query.bind(tasks).fetch_all(tx).await?;
        let named = payers.iter().filter(|name| !name.is_empty());
        named.map(|name| Ok(self.account.payer_of(aid(name)?))).collect()
    }

    /// Removes what is known of tasks of other domains: those that have ended and were told of before the first time, and all that
    /// were told of before the second.
    pub async fn remove_stubs(&self, ended_before: i64, open_before: i64) -> sqlx::Result<u64> {
        let ended = super::terminal_states();
        let skip = if self.engine() == Engine::Postgres { " FOR UPDATE SKIP LOCKED" } else { "" };
        let text = format!(
            "DELETE FROM task_stub WHERE (aid, task_id) IN
                 (SELECT aid, task_id FROM task_stub
                  WHERE changed_at < $1 AND (status IN ({ended}) OR changed_at < $2)
                  ORDER BY changed_at LIMIT $3{skip})"
        );
        let mut removed = 0;
        loop {
            let mut tx = self.begin().await?;
            let gone = sqlx::query(AssertSqlSafe(text.clone()))
                .bind(ended_before)
                .bind(open_before)
                .bind(STEP)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
            removed += gone.rows_affected();
            if gone.rows_affected() < STEP.unsigned_abs() {
                return Ok(removed);
            }
        }
    }

    /// Removes answers whose time is over.
    pub async fn remove_answers(&self, now: i64) -> sqlx::Result<u64> {
        self.remove_old("task_answer", "scope, key", "expires_at", now).await
    }

    /// Removes subscriptions to tasks that ended a while ago.
    pub async fn remove_subscriptions(&self, now: i64) -> sqlx::Result<u64> {
        self.remove_old("task_subscription", "aid, device, slot, task_id", "ends_at", now).await
    }

    /// Removes how far old texts were removed, where all those tasks are removed by now.
    pub async fn remove_places(&self, ended_before: i64) -> sqlx::Result<u64> {
        self.remove_old("task_content_removal", "aid", "ended_at", ended_before).await
    }

    async fn remove_old(&self, table: &str, key: &str, time: &str, now: i64) -> sqlx::Result<u64> {
        // Rows that somebody writes at this moment are left for the next time: waiting for them in another order than others do
        // could be waiting for each other.
        let skip = if self.engine() == Engine::Postgres { " FOR UPDATE SKIP LOCKED" } else { "" };
        let text = format!(
            "DELETE FROM {table} WHERE ({key}) IN
                 (SELECT {key} FROM {table} WHERE {time} <= $1 ORDER BY {time} LIMIT $2{skip})"
        );
        let mut removed = 0;
        loop {
            let mut tx = self.begin().await?;
            let gone =
                sqlx::query(AssertSqlSafe(text.clone())).bind(now).bind(STEP).execute(&mut *tx).await?;
            tx.commit().await?;
            removed += gone.rows_affected();
            if gone.rows_affected() < STEP.unsigned_abs() {
                return Ok(removed);
            }
        }
    }
}
