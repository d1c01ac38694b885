//! A row of the table of tasks, read and written.

use crate::model::task::TaskRow;
use kernel::Aid;
use kernel::json_rows::Column;
use proto_schemas::requests::task::{TaskId, TaskVisibility};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// What every statement reads that reads tasks, in the order of the members of [`StoredTask`].
pub(super) const READ: &str = "id, root_id, parent_id, depth, status, version, owner, assignee, participants, visibility, required, \
                               title, reason, messages, artifacts, artifact_bytes, created_at, updated_at, accepted_at, ended_at, due_at";

/// What is written of a new task.
pub(super) const WRITTEN: [Column; 22] = [
    ("id", "TEXT"),
    ("root_id", "TEXT"),
    ("parent_id", "TEXT"),
    ("depth", "BIGINT"),
    ("status", "TEXT"),
    ("version", "BIGINT"),
    ("owner", "TEXT"),
    ("assignee", "TEXT"),
    ("participants", "TEXT"),
    ("visibility", "TEXT"),
    ("required", "BIGINT"),
    ("title", "TEXT"),
    ("metadata", "TEXT"),
    ("reason", "TEXT"),
    ("messages", "BIGINT"),
    ("artifacts", "BIGINT"),
    ("artifact_bytes", "BIGINT"),
    ("created_at", "BIGINT"),
    ("updated_at", "BIGINT"),
    ("accepted_at", "BIGINT"),
    ("ended_at", "BIGINT"),
    ("due_at", "BIGINT"),
];

/// What of it may change later, beside the id that says of which one.
pub(super) const CHANGED: [Column; 11] = [
    ("id", "TEXT"),
    ("status", "TEXT"),
    ("version", "BIGINT"),
    ("reason", "TEXT"),
    ("messages", "BIGINT"),
    ("artifacts", "BIGINT"),
    ("artifact_bytes", "BIGINT"),
    ("updated_at", "BIGINT"),
    ("accepted_at", "BIGINT"),
    ("ended_at", "BIGINT"),
    ("due_at", "BIGINT"),
];

#[derive(Deserialize)]
pub(super) struct StoredTask {
    id: String,
    root_id: String,
    parent_id: Option<String>,
    depth: i64,
    status: String,
    version: i64,
    owner: String,
    assignee: String,
    participants: String,
    visibility: String,
    required: i64,
    title: String,
    reason: Option<String>,
    messages: i64,
    artifacts: i64,
    artifact_bytes: i64,
    created_at: i64,
    updated_at: i64,
    accepted_at: Option<i64>,
    ended_at: Option<i64>,
    due_at: Option<i64>,
}

impl StoredTask {
    pub fn read(self) -> sqlx::Result<TaskRow> {
        let participants: Arc<[Aid]> = serde_json::from_str(&self.participants).map_err(damaged)?;
        let visibility = TaskVisibility::parse(&self.visibility);
        Ok(TaskRow {
            id: task_id(self.id)?,
            root_id: task_id(self.root_id)?,
            parent_id: self.parent_id.map(task_id).transpose()?,
            depth: self.depth,
            state: self.status.parse().map_err(|error: String| damaged(error))?,
            version: self.version,
            owner: aid(&self.owner)?,
            assignee: aid(&self.assignee)?,
            participants,
            visibility: visibility.ok_or_else(|| damaged("a visibility that is none"))?,
            required: self.required == 1,
            title: self.title,
            reason: self.reason,
            messages: self.messages,
            artifacts: self.artifacts,
            artifact_bytes: self.artifact_bytes,
            created_at: self.created_at,
            updated_at: self.updated_at,
            accepted_at: self.accepted_at,
            ended_at: self.ended_at,
            due_at: self.due_at,
        })
    }
}

#[derive(Serialize)]
pub(super) struct WrittenTask<'a> {
    id: &'a TaskId,
    root_id: &'a TaskId,
    parent_id: Option<&'a TaskId>,
    depth: i64,
    status: &'static str,
    version: i64,
    owner: &'a Aid,
    assignee: &'a Aid,
    participants: String,
    visibility: &'static str,
    required: i64,
    title: &'a str,
    metadata: Option<&'a str>,
    reason: Option<&'a str>,
    messages: i64,
    artifacts: i64,
    artifact_bytes: i64,
    created_at: i64,
    updated_at: i64,
    accepted_at: Option<i64>,
    ended_at: Option<i64>,
    due_at: Option<i64>,
}

#[derive(Serialize)]
pub(super) struct WrittenChange<'a> {
    id: &'a TaskId,
    status: &'static str,
    version: i64,
    reason: Option<&'a str>,
    messages: i64,
    artifacts: i64,
    artifact_bytes: i64,
    updated_at: i64,
    accepted_at: Option<i64>,
    ended_at: Option<i64>,
    due_at: Option<i64>,
}

impl<'a> WrittenChange<'a> {
    pub fn of(task: &'a TaskRow) -> WrittenChange<'a> {
        WrittenChange {
            id: &task.id,
            status: task.state.as_str(),
            version: task.version,
            reason: task.reason.as_deref(),
            messages: task.messages,
            artifacts: task.artifacts,
            artifact_bytes: task.artifact_bytes,
            updated_at: task.updated_at,
            accepted_at: task.accepted_at,
            ended_at: task.ended_at,
            due_at: task.due_at,
        }
    }
}

impl<'a> WrittenTask<'a> {
    pub fn of(task: &'a TaskRow, metadata: Option<&'a RawValue>) -> sqlx::Result<WrittenTask<'a>> {
        Ok(WrittenTask {
            id: &task.id,
            root_id: &task.root_id,
            parent_id: task.parent_id.as_ref(),
            depth: task.depth,
            status: task.state.as_str(),
            version: task.version,
            owner: &task.owner,
            assignee: &task.assignee,
            participants: kernel::json_rows::text(&task.participants)?,
            visibility: task.visibility.as_str(),
            required: i64::from(task.required),
            title: &task.title,
            metadata: metadata.map(RawValue::get),
            reason: task.reason.as_deref(),
            messages: task.messages,
            artifacts: task.artifacts,
            artifact_bytes: task.artifact_bytes,
            created_at: task.created_at,
            updated_at: task.updated_at,
            accepted_at: task.accepted_at,
            ended_at: task.ended_at,
            due_at: task.due_at,
        })
    }
}

pub(super) fn task_id(text: String) -> sqlx::Result<TaskId> {
    TaskId::try_from(text).map_err(damaged)
}

pub(super) fn aid(text: &str) -> sqlx::Result<Aid> {
    Aid::parse(text).map_err(damaged)
}

/// What is stored is not what was written.
pub(super) fn damaged(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}
