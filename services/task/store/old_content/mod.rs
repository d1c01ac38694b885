//! Texts and artifacts of an agent in tasks that ended a while ago. Where the share of the agent is full they are removed, the oldest
//! first, and what others wrote in the same tasks stays.
//!
//! How far this has come is stored for each such agent. A task that has ended gets no more texts, and none ends before one that ended a
//! while ago, so nothing appears before that place later.

use super::Store;
use super::ended_agents::TaskSide;
use crate::model::state::TaskState;
use kernel::json_rows as json;
use kernel::{Aid, Engine, Kept};
use sqlx::{Any, AnyConnection, AssertSqlSafe};
use std::collections::{BTreeSet, HashMap};

/// What one transaction looks at, and about how much it removes: a task has at most 1050 rows.
const TASKS: i64 = 200;
const ROWS: i64 = 500;
const BYTES: i64 = 4 << 20;

/// A task by the time of its end.
type EndedTask = (i64, String);

impl Store {
    /// Whether an agent takes part in tasks that ended before this time and were not looked at yet.
    pub async fn has_old_content(&self, author: &Aid, before: i64) -> sqlx::Result<bool> {
        let mut connection = self.db.read().acquire().await?;
        let place: Option<EndedTask> =
            sqlx::query_as("SELECT ended_at, task_id FROM task_content_removal WHERE aid = $1")
                .bind(author.as_str())
                .fetch_optional(&mut *connection)
                .await?;
        let place = place.unwrap_or_default();
        Ok(!ended_tasks(&mut connection, author, before, &place, 1).await?.is_empty())
    }

    /// Removes some of what an agent wrote in tasks that ended before this time. Returns from how many tasks something was removed;
    /// `None` if the agent has space in its share, or nothing is left that is old enough.
    pub async fn remove_old_content(&self, author: &Aid, before: i64) -> sqlx::Result<Option<u64>> {
        let mut tx = self.begin().await?;
        let place = take_place(&mut tx, author).await?;
        let excess = self.account.excess(&mut tx, author).await?;
        let tasks = ended_tasks(&mut tx, author, before, &place, TASKS).await?;
        if excess == Kept::default() || tasks.is_empty() {
            return Ok(None);
        }
        let own = self.own_content(&mut tx, author, &tasks).await?;
        let (last, removed) = oldest(&tasks, &own, excess);
        if !removed.is_empty() {
            self.remove_content(&mut tx, author, &removed).await?;
        }
        sqlx::query("UPDATE task_content_removal SET ended_at = $2, task_id = $3 WHERE aid = $1")
            .bind(author.as_str())
            .bind(last.0)
            .bind(last.1.as_str())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Some(removed.len() as u64))
    }

    /// What an agent has in each of these tasks, where it has anything.
    async fn own_content(
        &self,
        tx: &mut AnyConnection,
        author: &Aid,
        tasks: &[EndedTask],
    ) -> sqlx::Result<HashMap<String, Kept>> {
        let ids: Vec<&str> = tasks.iter().map(|(_, id)| id.as_str()).collect();
        let given = json::texts(self.engine(), 1);
        let text = format!(
            "SELECT task_id, CAST(SUM(bytes) AS BIGINT), CAST(SUM(texts) AS BIGINT) FROM (
                 SELECT task_id, octet_length(body) AS bytes, 1 AS texts
                     FROM task_message WHERE task_id IN {given} AND from_aid = $2
                 UNION ALL SELECT task_id, octet_length(meta) + COALESCE(octet_length(content), 0), 1
                     FROM task_artifact WHERE task_id IN {given} AND created_by = $2
                 UNION ALL SELECT id, octet_length(metadata), 0
                     FROM task WHERE id IN {given} AND owner = $2 AND metadata IS NOT NULL
             ) AS own GROUP BY task_id"
        );
        let query = sqlx::query_as::<Any, (String, i64, i64)>(AssertSqlSafe(text));
        let rows = query.bind(json::text(&ids)?).bind(author.as_str()).fetch_all(tx).await?;
        let number = |number: i64| usize::try_from(number).unwrap_or_default();
        Ok(rows.into_iter().map(|(id, bytes, rows)| (id, Kept::rows(number(rows), number(bytes)))).collect())
    }

    /// On PostgreSQL tasks are locked before accounts, as every other transaction does it.
    async fn remove_content(
        &self,
        tx: &mut AnyConnection,
        author: &Aid,
        tasks: &BTreeSet<&str>,
    ) -> sqlx::Result<()> {
        let (list, given) = (json::text(tasks)?, json::texts(self.engine(), 1));
        if self.engine() == Engine::Postgres {
            let text = format!("SELECT id FROM task WHERE id IN {given} ORDER BY id FOR UPDATE");
            sqlx::query(AssertSqlSafe(text)).bind(list.as_str()).fetch_all(&mut *tx).await?;
            let payer = self.account.payer_of(author.clone());
            self.account.lock(tx, &BTreeSet::from([payer])).await?;
        }
        let marked = format!("UPDATE task SET content_removed = 1 WHERE id IN {given}");
        sqlx::query(AssertSqlSafe(marked)).bind(list.as_str()).execute(&mut *tx).await?;
        for text in [
            format!("DELETE FROM task_message WHERE task_id IN {given} AND from_aid = $2"),
            format!("DELETE FROM task_artifact WHERE task_id IN {given} AND created_by = $2"),
            format!(
                "UPDATE task SET metadata = NULL WHERE id IN {given} AND owner = $2 AND metadata IS NOT NULL"
            ),
        ] {
            let query = sqlx::query(AssertSqlSafe(text)).bind(list.as_str()).bind(author.as_str());
            query.execute(&mut *tx).await?;
        }
        Ok(())
    }
}

/// The first of these tasks from which so much is removed as has to go, or as one transaction may; and the last one looked at.
fn oldest<'a>(
    tasks: &'a [EndedTask],
    own: &HashMap<String, Kept>,
    excess: Kept,
) -> (EndedTask, BTreeSet<&'a str>) {
    let (mut last, mut removed, mut sum) = (EndedTask::default(), BTreeSet::new(), Kept::default());
    for task in tasks {
        let enough = sum.bytes >= excess.bytes && sum.rows >= excess.rows;
        if enough || sum.bytes >= BYTES || sum.rows >= ROWS {
            break;
        }
        if let Some(kept) = own.get(&task.1) {
            sum = sum.plus(*kept);
            removed.insert(task.1.as_str());
        }
        last.clone_from(task);
    }
    (last, removed)
}

/// How far the texts of an agent were removed. Another process that removes them waits here.
async fn take_place(tx: &mut AnyConnection, author: &Aid) -> sqlx::Result<EndedTask> {
    sqlx::query_as(
        "INSERT INTO task_content_removal (aid, ended_at, task_id) VALUES ($1, 0, '')
         ON CONFLICT (aid) DO UPDATE SET ended_at = task_content_removal.ended_at RETURNING ended_at, task_id",
    )
    .bind(author.as_str())
    .fetch_one(tx)
    .await
}

/// Tasks in which an agent takes part, that ended before a time and after a place, the longest ago first. A task that has ended never
/// changes again, so it changed last when it ended.
async fn ended_tasks(
    connection: &mut AnyConnection,
    author: &Aid,
    before: i64,
    place: &EndedTask,
    most: i64,
) -> sqlx::Result<Vec<EndedTask>> {
    let mut parts = Vec::new();
    for (table, column, id) in TaskSide::ALL.map(TaskSide::columns) {
        for state in TaskState::ALL.into_iter().filter(|state| state.is_terminal()) {
            parts.push(format!(
                "SELECT * FROM (SELECT updated_at, {id} AS id FROM {table}
                 WHERE {column} = $1 AND status = '{state}' AND updated_at < $2 AND (updated_at, {id}) > ($3, $4)
                 ORDER BY updated_at, {id} LIMIT $5) AS {column}_{state}"
            ));
        }
    }
    let text = format!("{} ORDER BY updated_at, id LIMIT $5", parts.join(" UNION "));
    sqlx::query_as::<Any, EndedTask>(AssertSqlSafe(text))
        .bind(author.as_str())
        .bind(before)
        .bind(place.0)
        .bind(place.1.as_str())
        .bind(most)
        .fetch_all(connection)
        .await
}
