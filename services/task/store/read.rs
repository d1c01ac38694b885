//! Reads tasks for those who ask: a tree, and all that belongs to one task.

use super::Store;
use super::load::StoredArtifact;
use super::row::{aid, damaged};
use crate::model::tree::Trees;
use kernel::iso;
use proto_schemas::requests::task::{TaskArtifact, TaskId, TaskMessage};
use serde_json::value::RawValue;
use sqlx::{Any, AnyConnection};
use std::collections::BTreeSet;

/// How many messages are read at once, and how many bytes of them.
const MOST_MESSAGES: usize = 100;
const MESSAGE_BYTES: usize = 256 << 10;

/// Which messages of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessagesWanted {
    /// The last ones.
    Last,
    /// The first ones after a number.
    After(i64),
}

/// What belongs to a task beside its row.
#[derive(Debug)]
pub(crate) struct TaskDetails {
    pub input: Box<RawValue>,
    pub metadata: Option<Box<RawValue>>,
    pub messages: Vec<TaskMessage>,
    /// Whether there are more of the wanted ones.
    pub truncated: bool,
    pub artifacts: Vec<TaskArtifact>,
    /// Whether there were more texts or artifacts, which were removed.
    pub content_removed: bool,
}

/// Instead of an input that was removed.
const NO_INPUT: &str = r#"{"type":"text","content":""}"#;

#[derive(sqlx::FromRow)]
struct StoredTaskMessage {
    seq: i64,
    id: String,
    from_aid: String,
    kind: String,
    body: String,
    created_at: i64,
}

impl Store {
    /// The trees of these tasks, as they are at one moment.
    pub async fn read_trees(&self, tasks: &BTreeSet<TaskId>) -> sqlx::Result<Trees> {
        let mut connection = self.db.read().acquire().await?;
        self.trees(&mut connection, tasks).await
    }

    /// A task with its tree and everything that belongs to it, all of one moment. The details are read only if `is_readable`.
    pub async fn read_task(
        &self,
        id: &TaskId,
        wanted: MessagesWanted,
        is_readable: impl Fn(&Trees) -> bool,
    ) -> sqlx::Result<(Trees, Option<TaskDetails>)> {
        let mut tx = self.snapshot().await?;
        let trees = self.trees(&mut tx, &BTreeSet::from([id.clone()])).await?;
        if !is_readable(&trees) {
            return Ok((trees, None));
        }
        let (messages, truncated) = self.messages(&mut tx, id, wanted).await?;
        let (metadata, content_removed): (Option<String>, i64) =
            sqlx::query_as("SELECT metadata, content_removed FROM task WHERE id = $1")
                .bind(id.as_str())
                .fetch_one(&mut *tx)
                .await?;
        let input: Option<String> =
            sqlx::query_scalar("SELECT body FROM task_message WHERE task_id = $1 AND seq = 1")
                .bind(id.as_str())
                .fetch_optional(&mut *tx)
                .await?;
        let content_removed = content_removed == 1;
        let input = input.or_else(|| content_removed.then(|| NO_INPUT.to_owned()));
        let details = TaskDetails {
            input: RawValue::from_string(input.ok_or(sqlx::Error::RowNotFound)?).map_err(damaged)?,
            metadata: metadata.map(RawValue::from_string).transpose().map_err(damaged)?,
            messages,
            truncated,
            artifacts: self.artifacts(&mut tx, id).await?,
            content_removed,
        };
        tx.rollback().await?;
        Ok((trees, Some(details)))
    }

    async fn messages(
        &self,
        tx: &mut AnyConnection,
        id: &TaskId,
        wanted: MessagesWanted,
    ) -> sqlx::Result<(Vec<TaskMessage>, bool)> {
        let (text, after) = match wanted {
            MessagesWanted::Last => (
                "SELECT seq, id, from_aid, kind, body, created_at FROM task_message
                 WHERE task_id = $1 AND seq > $2 ORDER BY seq DESC LIMIT $3",
                0,
            ),
            MessagesWanted::After(seq) => (
                "SELECT seq, id, from_aid, kind, body, created_at FROM task_message
                 WHERE task_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
                seq,
            ),
        };
        let rows: Vec<StoredTaskMessage> = sqlx::query_as::<Any, StoredTaskMessage>(text)
            .bind(id.as_str())
            .bind(after)
            .bind(MOST_MESSAGES as i64 + 1)
            .fetch_all(tx)
            .await?;
        let (mut messages, mut bytes, many) = (Vec::new(), 0, rows.len());
        for row in rows.into_iter().take(MOST_MESSAGES) {
            bytes += row.body.len();
            // One is always shown, so that whoever goes on from it gets further.
            if bytes > MESSAGE_BYTES && !messages.is_empty() {
                break;
            }
            messages.push(row.read()?);
        }
        let truncated = messages.len() < many;
        if wanted == MessagesWanted::Last {
            messages.reverse();
        }
        Ok((messages, truncated))
    }

    async fn artifacts(&self, tx: &mut AnyConnection, id: &TaskId) -> sqlx::Result<Vec<TaskArtifact>> {
        let rows: Vec<StoredArtifact> = sqlx::query_as::<Any, StoredArtifact>(
            "SELECT task_id, position, digest, meta, content, bytes, created_at
             FROM task_artifact WHERE task_id = $1 ORDER BY position",
        )
        .bind(id.as_str())
        .fetch_all(tx)
        .await?;
        rows.into_iter().map(|row| Ok(row.read()?.artifact)).collect()
    }
}

impl StoredTaskMessage {
    fn read(self) -> sqlx::Result<TaskMessage> {
        Ok(TaskMessage {
            seq: self.seq,
            id: self.id,
            from: aid(&self.from_aid)?.to_string(),
            kind: self.kind,
            body: RawValue::from_string(self.body).map_err(damaged)?,
            created_at: iso(self.created_at),
        })
    }
}
