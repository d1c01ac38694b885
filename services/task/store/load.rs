//! Reads what a batch of calls is about, in a handful of statements, and keeps others from changing it until the commit.

use super::row::{READ, StoredTask, aid, damaged, task_id};
use super::wanted::{AnswerKey, InputKey, LoadWanted};
use super::{Store, json};
use crate::kernel::{Aid, Engine};
use crate::task::model::event::EVENT_CONTENT_BYTES;
use crate::task::model::state::TaskState;
use crate::task::model::task::TaskId;
use crate::task::model::tree::{ArtifactRow, OpenTasks, StoredAnswer, StoredInput, Trees};
use serde_json::value::RawValue;
use sqlx::{Any, AnyConnection, AssertSqlSafe, FromRow};
use std::collections::BTreeSet;

#[derive(FromRow)]
struct AnswerRow {
    scope: String,
    key: String,
    body_hash: String,
    result: String,
    expires_at: i64,
}

#[derive(FromRow)]
struct InputRow {
    task_id: String,
    id: String,
    from_aid: String,
    body: String,
}

#[derive(FromRow)]
pub(super) struct StoredArtifact {
    task_id: String,
    position: i64,
    digest: String,
    meta: String,
    content: Option<String>,
    bytes: i64,
    created_at: i64,
}

impl StoredArtifact {
    pub fn read(self) -> sqlx::Result<ArtifactRow> {
        let mut artifact: proto_schemas::requests::task::TaskArtifact =
            serde_json::from_str(&self.meta).map_err(damaged)?;
        artifact.content = self.content.map(RawValue::from_string).transpose().map_err(damaged)?;
        Ok(ArtifactRow {
            task_id: task_id(self.task_id)?,
            position: self.position,
            artifact,
            bytes: self.bytes,
            digest: self.digest,
            created_at: self.created_at,
        })
    }
}

#[derive(FromRow)]
struct OpenRow {
    aid: String,
    owned: i64,
    assigned: i64,
}

impl Store {
    /// Reads everything wanted in a transaction that writes. On SQLite nobody else writes meanwhile. On PostgreSQL the roots of the
    /// trees are locked first, in the order of their ids, and then those who get new tasks, in the order of their names: two
    /// processes that are about the same wait for each other, and never both at once. What is read after that is what the other one
    /// has committed.
    pub async fn load(&self, tx: &mut AnyConnection, wanted: &LoadWanted) -> sqlx::Result<Trees> {
        if self.engine() == Engine::Postgres {
            self.lock(tx, wanted).await?;
        }
        let mut trees = self.trees(tx, &wanted.tasks).await?;
        if !wanted.agents.is_empty() {
            self.load_open(tx, &wanted.agents, &mut trees).await?;
        }
        if !wanted.answers.is_empty() {
            self.load_answers(tx, &wanted.answers, &mut trees).await?;
        }
        if !wanted.inputs.is_empty() {
            self.load_inputs(tx, &wanted.inputs, &mut trees).await?;
        }
        if !wanted.artifacts.is_empty() {
            self.load_artifacts(tx, &wanted.artifacts, &mut trees).await?;
        }
        Ok(trees)
    }

    async fn lock(&self, tx: &mut AnyConnection, wanted: &LoadWanted) -> sqlx::Result<()> {
        if !wanted.tasks.is_empty() {
            self.lock_roots(tx, &wanted.tasks, "UPDATE").await?;
        }
        if !wanted.agents.is_empty() {
            self.lock_agents(tx, &wanted.agents).await?;
        }
        Ok(())
    }

    /// A task never changes its tree, so which roots there are can be read before they are locked.
    pub(super) async fn lock_roots(
        &self,
        tx: &mut AnyConnection,
        tasks: &BTreeSet<TaskId>,
        strength: &str,
    ) -> sqlx::Result<()> {
        let ids = json::texts(self.engine(), 1);
        let text = format!(
            "SELECT id FROM task WHERE id IN (SELECT root_id FROM task WHERE id IN {ids}) ORDER BY id FOR {strength}"
        );
        sqlx::query(AssertSqlSafe(text)).bind(json::text(tasks)?).fetch_all(tx).await?;
        Ok(())
    }

    /// What is counted for each of them, and the keys of their calls, is changed by one transaction at a time.
    pub(super) async fn lock_agents(
        &self,
        tx: &mut AnyConnection,
        agents: &BTreeSet<Aid>,
    ) -> sqlx::Result<()> {
        let names = json::texts(self.engine(), 1);
        let text = format!(
            "SELECT CAST(pg_advisory_xact_lock(number) AS TEXT) FROM (
                 SELECT DISTINCT hashtextextended(CAST(current_schema() AS TEXT) || ' ' || value, 0) AS number
                 FROM {names} AS names ORDER BY number) AS numbers"
        );
        sqlx::query(AssertSqlSafe(text)).bind(json::text(agents)?).fetch_all(tx).await?;
        Ok(())
    }

    /// The whole tree of each of these tasks.
    pub(super) async fn trees(
        &self,
        tx: &mut AnyConnection,
        tasks: &BTreeSet<TaskId>,
    ) -> sqlx::Result<Trees> {
        let mut trees = Trees::default();
        if tasks.is_empty() {
            return Ok(trees);
        }
        let ids = json::texts(self.engine(), 1);
        let text =
            format!("SELECT {READ} FROM task WHERE root_id IN (SELECT root_id FROM task WHERE id IN {ids})");
        let rows: Vec<StoredTask> = sqlx::query_as::<Any, StoredTask>(AssertSqlSafe(text))
            .bind(json::text(tasks)?)
            .fetch_all(tx)
            .await?;
        for row in rows {
            trees.insert(row.read()?);
        }
        Ok(trees)
    }

    async fn load_open(
        &self,
        tx: &mut AnyConnection,
        agents: &BTreeSet<Aid>,
        trees: &mut Trees,
    ) -> sqlx::Result<()> {
        let open = TaskState::ALL.into_iter().filter(|state| !state.is_terminal());
        let open = open.map(|state| format!("'{state}'")).collect::<Vec<_>>().join(", ");
        let names = json::texts(self.engine(), 1);
        let text = format!(
            "SELECT value AS aid,
                 (SELECT COUNT(*) FROM task WHERE owner = names.value AND status IN ({open})) AS owned,
                 (SELECT COUNT(*) FROM task WHERE assignee = names.value AND status IN ({open})) AS assigned
             FROM {names} AS names"
        );
        let rows: Vec<OpenRow> = sqlx::query_as::<Any, OpenRow>(AssertSqlSafe(text))
            .bind(json::text(agents)?)
            .fetch_all(tx)
            .await?;
        for row in rows {
            let open = OpenTasks { owned: row.owned, assigned: row.assigned };
            trees.open.insert(aid(&row.aid)?, open);
        }
        Ok(())
    }

    async fn load_answers(
        &self,
        tx: &mut AnyConnection,
        keys: &BTreeSet<AnswerKey>,
        trees: &mut Trees,
    ) -> sqlx::Result<()> {
        let rows = json::rows(self.engine(), &[("scope", "TEXT"), ("key", "TEXT")]);
        let text = format!(
            "SELECT task_answer.scope, task_answer.key, body_hash, result, expires_at
             FROM {rows} CROSS JOIN task_answer
             WHERE task_answer.scope = given.scope AND task_answer.key = given.key"
        );
        let rows: Vec<AnswerRow> = sqlx::query_as::<Any, AnswerRow>(AssertSqlSafe(text))
            .bind(json::text(keys)?)
            .fetch_all(tx)
            .await?;
        for AnswerRow { scope, key, body_hash, result, expires_at } in rows {
            trees.answers.insert((scope, key), StoredAnswer { body_hash, result, expires_at });
        }
        Ok(())
    }

    async fn load_inputs(
        &self,
        tx: &mut AnyConnection,
        keys: &BTreeSet<InputKey>,
        trees: &mut Trees,
    ) -> sqlx::Result<()> {
        let rows = json::rows(self.engine(), &[("task_id", "TEXT"), ("id", "TEXT")]);
        let text = format!(
            "SELECT task_message.task_id, task_message.id, from_aid, body
             FROM {rows} CROSS JOIN task_message
             WHERE task_message.task_id = given.task_id AND task_message.id = given.id"
        );
        let rows: Vec<InputRow> = sqlx::query_as::<Any, InputRow>(AssertSqlSafe(text))
            .bind(json::text(keys)?)
            .fetch_all(tx)
            .await?;
        for row in rows {
            let body = RawValue::from_string(row.body).map_err(damaged)?;
            let stored = StoredInput { from: aid(&row.from_aid)?, body };
            trees.inputs.insert((task_id(row.task_id)?, row.id), stored);
        }
        Ok(())
    }

    async fn load_artifacts(
        &self,
        tx: &mut AnyConnection,
        tasks: &BTreeSet<TaskId>,
        trees: &mut Trees,
    ) -> sqlx::Result<()> {
        let ids = json::texts(self.engine(), 1);
        let text = format!(
            "SELECT task_id, position, digest, meta, bytes, created_at,
                 CASE WHEN bytes <= {EVENT_CONTENT_BYTES} THEN content END AS content
             FROM task_artifact WHERE task_id IN {ids} ORDER BY task_id, position"
        );
        let rows: Vec<StoredArtifact> = sqlx::query_as::<Any, StoredArtifact>(AssertSqlSafe(text))
            .bind(json::text(tasks)?)
            .fetch_all(tx)
            .await?;
        for row in rows {
            let row = row.read()?;
            trees.artifacts.entry(row.task_id.clone()).or_default().push(row);
        }
        Ok(())
    }
}
